// Topologies of whole links: how fractions of links become whole ones, and how free ports are used up.
//
// A topology of n endpoints is an n x n table of counts, row by row, with a diagonal of 0: from i to j lead
// links[i*n+j] circuits. Circuits have one direction; an endpoint has `ports` transmitters and as many receivers, so no
// row and no column sums up to more. Cables have two: the table is symmetric, and a row is all that an endpoint has
// plugged in.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace banyan::design {

enum class Wiring : uint8_t { cables, circuits };

struct Ports {
  size_t endpoints = 0;
  uint32_t each = 0;
  Wiring wiring = Wiring::cables;
};

// Fractions as whole numbers: shares[e] / scale links. Rows and columns sum up to `ports.each` links at most; for
// cables the table is symmetric.
//
// For circuits, every count is the floor or the ceiling of its fraction. All ports are used if all rows and columns sum
// up to `ports.each` exactly: the bipartite graph of the fractions that are not whole has such a matching (an integral
// flow), found here by augmenting paths, largest remainders first. For cables, the two counts of a pair so rounded are
// averaged; halves that are left form trails along which ups and downs take turns (Euler), so that counts are still
// floors or ceilings, and an endpoint may keep ports free. O(n^3 ports), in practice O(n^2 ports).
std::vector<uint32_t> round_links(std::span<const uint64_t> shares, uint64_t scale, const Ports& ports);

// Adds links until no port is free that another could meet, first where `wish(from, to)` is largest, one link after the
// other; a pair's wish may shrink as the pair gets links. If only one endpoint has ports left, a link of two others is
// led through it. Ports that stay free: one if ports and endpoints are both odd, and those that two endpoints alone
// have.
void fill_ports(std::vector<uint32_t>& links, const Ports& ports,
                const std::function<double(size_t from, size_t to)>& wish);

// As even as whole links can be: each pair has floor or ceiling of ports / (n - 1), the ceilings go to endpoints at
// distances 1, 2, .. round a circle. A few cables may stand elsewhere if ports and endpoints are both odd.
std::vector<uint32_t> even_mesh(const Ports& ports);

// A random regular topology: `rounds` of exchanges of the ends of two links on the even mesh, from the seed.
std::vector<uint32_t> random_regular(const Ports& ports, uint64_t seed);

// True if every endpoint reaches every other over links.
bool joins_all(std::span<const uint32_t> links, size_t endpoints);

// A change of a topology that keeps the use of all ports: of two links, the ends are exchanged.
class EndExchange {
 public:
  EndExchange(std::vector<uint32_t>& links, const Ports& ports);

  size_t link_count() const { return ends_.size(); }
  // Exchanges the ends of links `first` and `second`, numbered from 0; of cables, `turned` says which ends. False,
  // without a change, where a link would lead back to its own endpoint or nothing would be new.
  bool exchange(size_t first, size_t second, bool turned);
  // Moves an end of a link to an endpoint that has a port free; false where that is not possible.
  bool move_end(size_t link, size_t to, bool of_head);
  // Two endpoints take each other's place. False where it is one.
  bool swap_endpoints(uint32_t one, uint32_t other);
  void undo();  // all changes since the last keep()
  void keep() { journal_.clear(); }

 private:
  struct Ends {
    uint32_t from = 0, to = 0;
  };
  void put(size_t link, Ends ends);
  void count(Ends ends, int by);

  std::vector<uint32_t>& links_;
  Ports ports_;
  std::vector<Ends> ends_;
  std::vector<uint32_t> out_, in_;                // ports in use
  std::vector<std::pair<size_t, Ends>> journal_;  // links as they were, in the order of the changes
};

}  // namespace banyan::design
