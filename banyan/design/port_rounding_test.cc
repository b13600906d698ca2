#include "banyan/design/port_rounding.h"

#include "banyan/testing/test.h"

namespace banyan::design {
namespace {

uint64_t row_sum(const std::vector<uint32_t>& links, size_t n, size_t row) {
  return std::accumulate(links.begin() + static_cast<ptrdiff_t>(row * n),
                         links.begin() + static_cast<ptrdiff_t>((row + 1) * n), uint64_t{0});
}
uint64_t column_sum(const std::vector<uint32_t>& links, size_t n, size_t column) {
  uint64_t sum = 0;
  for (size_t i = 0; i < n; ++i) sum += links[i * n + column];
  return sum;
}

void expect_topology(const std::vector<uint32_t>& links, const Ports& ports, uint64_t least_free = 0) {
  const size_t n = ports.endpoints;
  uint64_t free = 0;
  for (size_t i = 0; i < n; ++i) {
    EXPECT_EQ(links[i * n + i], 0u);
    EXPECT_LE(row_sum(links, n, i), ports.each);
    EXPECT_LE(column_sum(links, n, i), ports.each);
    free += ports.each - row_sum(links, n, i);
    for (size_t j = 0; j < n && ports.wiring == Wiring::cables; ++j) EXPECT_EQ(links[i * n + j], links[j * n + i]);
  }
  EXPECT_EQ(free, least_free);
}

// Sums of permutations without fixed points, in random parts of `scale`: all rows and columns have `each` in all.
std::vector<uint64_t> random_shares(std::mt19937_64& random, const Ports& ports, uint64_t scale) {
  const size_t n = ports.endpoints;
  std::vector<uint64_t> shares(n * n);
  uint64_t left = ports.each * scale;
  while (left > 0) {
    const uint64_t part = std::min(left, 1 + random() % scale);
    left -= part;
    std::vector<size_t> image(n);
    std::iota(image.begin(), image.end(), 0);
    const auto has_fixed_point = [&] {
      for (size_t i = 0; i < n; ++i) {
        if (image[i] == i) return true;
      }
      return false;
    };
    do {
      std::shuffle(image.begin(), image.end(), random);
    } while (has_fixed_point());
    for (size_t i = 0; i < n; ++i) shares[i * n + image[i]] += part;
  }
  return shares;
}

TEST(RoundLinks, KeepsFloorsCeilingsAndPortsOfCircuits) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const Ports ports{
        .endpoints = 2 + random() % 9, .each = 1 + static_cast<uint32_t>(random() % 7), .wiring = Wiring::circuits};
    const uint64_t scale = 1 + random() % 1000;
    const std::vector<uint64_t> shares = random_shares(random, ports, scale);
    const std::vector<uint32_t> links = round_links(shares, scale, ports);
    expect_topology(links, ports);
    for (size_t e = 0; e < links.size(); ++e) {
      EXPECT_GE(links[e], shares[e] / scale);
      EXPECT_LE(links[e], (shares[e] + scale - 1) / scale);
    }
  }
}

TEST(RoundLinks, KeepsFloorsCeilingsAndSymmetryOfCables) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const Ports ports{
        .endpoints = 2 + random() % 9, .each = 1 + static_cast<uint32_t>(random() % 7), .wiring = Wiring::cables};
    const size_t n = ports.endpoints;
    const uint64_t scale = 2 * (1 + random() % 500);
    const std::vector<uint64_t> one_way = random_shares(random, ports, scale / 2);
    std::vector<uint64_t> shares(n * n);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) shares[i * n + j] = one_way[i * n + j] + one_way[j * n + i];
    }
    std::vector<uint32_t> links = round_links(shares, scale, ports);
    uint64_t used = 0;
    for (size_t i = 0; i < n; ++i) {
      used += row_sum(links, n, i);
      EXPECT_LE(row_sum(links, n, i), ports.each);
      for (size_t j = 0; j < n; ++j) {
        EXPECT_EQ(links[i * n + j], links[j * n + i]);
        EXPECT_GE(links[i * n + j], shares[i * n + j] / scale);
        EXPECT_LE(links[i * n + j], (shares[i * n + j] + scale - 1) / scale);
      }
    }
    EXPECT_GE(used + 2 * n / 3 + 1, n * ports.each);  // a port is lost at most for each trail of odd length
    fill_ports(links, ports, [](size_t, size_t) { return 0.0; });
    expect_topology(links, ports, n * ports.each % 2);
  }
}

TEST(FillPorts, UsesAllPortsFirstWhereTheWishIsLargest) {
  const Ports ports{.endpoints = 4, .each = 2, .wiring = Wiring::cables};
  std::vector<uint32_t> links(16);
  fill_ports(links, ports, [](size_t i, size_t j) { return std::min(i, j) == 1 && std::max(i, j) == 3 ? 1.0 : 0.0; });
  EXPECT_EQ(links[1 * 4 + 3], 2u);
  EXPECT_EQ(links[0 * 4 + 2], 2u);
}

TEST(FillPorts, LeadsLinksThroughAnEndpointThatHasPortsLeft) {
  // Cables a-b twice leave c with two ports and nobody to join.
  const Ports ports{.endpoints = 3, .each = 2, .wiring = Wiring::cables};
  std::vector<uint32_t> links{0, 2, 0, 2, 0, 0, 0, 0, 0};
  fill_ports(links, ports, [](size_t, size_t) { return 0.0; });
  EXPECT_THAT(links, ::testing::ElementsAre(0, 1, 1, 1, 0, 1, 1, 1, 0));
  const Ports one_way{.endpoints = 3, .each = 1, .wiring = Wiring::circuits};
  std::vector<uint32_t> circuits{0, 1, 0, 1, 0, 0, 0, 0, 0};
  fill_ports(circuits, one_way, [](size_t, size_t) { return 0.0; });
  expect_topology(circuits, one_way);
}

TEST(EvenMesh, DiffersByOneLinkAtMost) {
  for (const Wiring wiring : {Wiring::cables, Wiring::circuits}) {
    for (size_t n = 2; n <= 9; ++n) {
      for (uint32_t each = 1; each <= 2 * n; ++each) {
        SCOPED_TRACE(::testing::Message() << n << " endpoints, " << each << " ports");
        const Ports ports{.endpoints = n, .each = each, .wiring = wiring};
        const std::vector<uint32_t> links = even_mesh(ports);
        expect_topology(links, ports, wiring == Wiring::cables ? n * each % 2 : 0);
        for (size_t i = 0; i < n; ++i) {
          for (size_t j = 0; j < n; ++j) {
            if (i == j) continue;
            EXPECT_GE(links[i * n + j] + (n * each % 2), each / (n - 1));
            EXPECT_LE(links[i * n + j], each / (n - 1) + 1 + (n * each % 2));
          }
        }
      }
    }
  }
}

TEST(RandomRegular, UsesAllPortsAndDependsOnTheSeedOnly) {
  for (const Wiring wiring : {Wiring::cables, Wiring::circuits}) {
    const Ports ports{.endpoints = 12, .each = 4, .wiring = wiring};
    const std::vector<uint32_t> links = random_regular(ports, 5);
    expect_topology(links, ports);
    EXPECT_EQ(links, random_regular(ports, 5));
    EXPECT_NE(links, random_regular(ports, 6));
    EXPECT_NE(links, even_mesh(ports));
  }
}

TEST(EndExchange, KeepsPortsAndCanBeUndone) {
  for (const Wiring wiring : {Wiring::cables, Wiring::circuits}) {
    const Ports ports{.endpoints = 5, .each = 3, .wiring = wiring};
    std::vector<uint32_t> links = even_mesh(ports);
    const uint64_t free = wiring == Wiring::cables ? 1 : 0;  // 15 ports make 7 cables
    EndExchange ends(links, ports);
    std::mt19937_64 random(3);
    size_t exchanged = 0, moved = 0;
    for (int round = 0; round < 2000; ++round) {
      const std::vector<uint32_t> before = links;
      const size_t a = random() % ends.link_count(), b = random() % ends.link_count();
      const bool turned = random() % 2 == 0;
      bool is_changed = false;
      if (round % 7 == 0) {
        const uint32_t one = static_cast<uint32_t>(random() % 5), other = static_cast<uint32_t>(random() % 5);
        is_changed = ends.swap_endpoints(one, other);
        EXPECT_EQ(is_changed, one != other);
        EXPECT_EQ(row_sum(links, 5, one), row_sum(before, 5, other));
      } else if (round % 3 == 0) {
        is_changed = ends.move_end(a, random() % 5, turned);
        moved += is_changed;
      } else {
        is_changed = ends.exchange(a, b, turned);
        exchanged += is_changed;
      }
      expect_topology(links, ports, free);
      if (!is_changed) {
        EXPECT_EQ(links, before);
      } else if (round % 2 == 0) {
        ends.undo();
        EXPECT_EQ(links, before);
      }
      ends.keep();
    }
    EXPECT_GT(exchanged, 100u);
    EXPECT_EQ(moved > 0, free > 0);
  }
}

TEST(JoinsAll, LooksInBothDirections) {
  EXPECT_TRUE(joins_all(std::vector<uint32_t>{0, 1, 0, 0, 0, 1, 1, 0, 0}, 3));
  EXPECT_FALSE(joins_all(std::vector<uint32_t>{0, 1, 0, 0, 0, 1, 0, 0, 0}, 3));
  EXPECT_FALSE(joins_all(std::vector<uint32_t>{0, 1, 0, 1, 0, 0, 0, 1, 0}, 3));
}

}  // namespace
}  // namespace banyan::design
