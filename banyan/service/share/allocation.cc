#include "banyan/service/share/allocation.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "banyan/base/error.h"
#include "banyan/predict/fluid/max_min.h"

namespace banyan::service {
namespace {

using predict::MaxMin;
constexpr size_t kClasses = 3;

bool is_sound(double amount) { return amount >= kLeastAmount && amount <= kMostAmount; }

Error not_sound(const std::string& what, double amount) {
  std::ostringstream text;
  text << what << " is " << amount << ", not from " << kLeastAmount << " to " << kMostAmount;
  return invalid(text.str());
}

void expect_all_sound(std::span<const SharedCall> calls, const SharedNetwork& network) {
  expect_sound(network);
  for (const SharedCall& call : calls) {
    try {
      if (call.tenant >= network.weights.size()) {
        throw invalid("is of tenant " + std::to_string(call.tenant) + ", but there are " +
                      std::to_string(network.weights.size()) + ", counted from 0");
      }
      expect_sound(call, network.capacities.size());
    } catch (const Error& error) {
      throw error.within("call " + std::to_string(&call - calls.data()));
    }
  }
}

// Links are filled in parts of their capacities, by calls that are counted in dominant shares s: so the units of bytes
// and links do not matter to the solver.
class Filling {
 public:
  Filling(const SharedNetwork& network, std::span<const SharedCall> calls);

  void fill_floors(double least);
  void fill_rest();
  std::vector<double> speeds() const;

 private:
  struct Row {
    std::vector<predict::FluidHop> hops;  // for s = 1
    double seconds = 0;                   // that the call takes with s = 1
    double weight = 0;
    double most = MaxMin::kUnlimited;  // of s
    double share = 0;                  // s
  };
  // Raises the shares of these calls, on top of what they have, as far as links with these capacities let them.
  void raise(const std::vector<uint32_t>& calls, std::vector<double> capacities);

  std::vector<Row> rows_;
  std::array<std::vector<uint32_t>, kClasses> classes_;  // those that use links
  std::vector<double> left_;                             // of each link
};

Filling::Filling(const SharedNetwork& network, std::span<const SharedCall> calls)
    : rows_(calls.size()), left_(network.capacities.size(), 1) {
  std::vector<std::array<uint32_t, kClasses>> under_way(network.weights.size());
  for (uint32_t i = 0; i < calls.size(); ++i) {
    const SharedCall& call = calls[i];
    // A call that uses no link has no limit.
    if (call.footprint.empty()) continue;
    classes_[static_cast<size_t>(call.share_class)].push_back(i);
    ++under_way[call.tenant][static_cast<size_t>(call.share_class)];
    // The dominant share: with s = 1 the call takes as long as its busiest link needs, and uses others in proportion.
    double most_bytes = 0;
    for (const LinkUse& use : call.footprint) {
      rows_[i].seconds = std::max(rows_[i].seconds, use.bytes / network.capacities[use.link]);
      most_bytes = std::max(most_bytes, use.bytes);
    }
    for (const LinkUse& use : call.footprint) {
      rows_[i].hops.push_back({use.link, use.bytes / network.capacities[use.link] / rows_[i].seconds});
    }
    // The cap is met first on the link where the call has most bytes.
    rows_[i].most = call.cap / most_bytes * rows_[i].seconds;
  }
  // A tenant's weight is divided evenly among its calls of one class; then each part is multiplied by the call's
  // factor.
  for (size_t share_class = 0; share_class < kClasses; ++share_class) {
    for (const uint32_t i : classes_[share_class]) {
      const uint32_t tenant = calls[i].tenant;
      rows_[i].weight = network.weights[tenant] / under_way[tenant][share_class] * calls[i].factor;
    }
  }
}

void Filling::raise(const std::vector<uint32_t>& calls, std::vector<double> capacities) {
  // The solver knows only what comes on top of what calls have already.
  MaxMin solver(std::move(capacities));
  std::vector<uint32_t> rising;
  for (const uint32_t i : calls) {
    const Row& row = rows_[i];
    // A call at its cap stays there. Others may have the rest of theirs.
    if (row.share >= row.most) continue;
    solver.add(i, {.hops = row.hops, .weight = row.weight, .cap = row.most - row.share});
    rising.push_back(i);
  }
  solver.solve();
  for (const uint32_t i : rising) {
    const double more = solver.rate(i);
    rows_[i].share += more;
    // Rounding must leave no link less than nothing.
    for (const predict::FluidHop& hop : rows_[i].hops) {
      left_[hop.link] = std::max(0.0, left_[hop.link] - hop.coefficient * more);
    }
  }
}

void Filling::fill_floors(double least) {
  if (least == 0) return;
  bool is_highest = true;
  for (const std::vector<uint32_t>& calls : classes_) {
    if (calls.empty()) continue;
    // Each class by itself in a network with `least` of each capacity; the highest one in use has no floor.
    if (!is_highest) raise(calls, std::vector<double>(left_.size(), least));
    is_highest = false;
  }
}

void Filling::fill_rest() {
  for (const std::vector<uint32_t>& calls : classes_) {
    // Highest class first: a class does not feel what lower ones ask beyond their floors (5).
    if (!calls.empty()) raise(calls, left_);
  }
}

std::vector<double> Filling::speeds() const {
  std::vector<double> speeds;
  speeds.reserve(rows_.size());
  for (const Row& row : rows_) speeds.push_back(row.hops.empty() ? MaxMin::kUnlimited : row.share / row.seconds);
  return speeds;
}

}  // namespace

void expect_sound(double amount, const std::string& what) {
  if (!is_sound(amount)) throw not_sound(what, amount);
}

void expect_sound(const SharedNetwork& network) {
  if (!(network.least >= 0 && network.least <= SharedNetwork::kMostLeast)) {
    throw invalid("the least share of a class is " + std::to_string(network.least) + ", not from 0 to a third");
  }
  for (size_t link = 0; link < network.capacities.size(); ++link) {
    const double capacity = network.capacities[link];
    if (!is_sound(capacity)) throw not_sound("the capacity of link " + std::to_string(link), capacity);
  }
  for (size_t tenant = 0; tenant < network.weights.size(); ++tenant) {
    const double weight = network.weights[tenant];
    if (!is_sound(weight)) throw not_sound("the weight of tenant " + std::to_string(tenant), weight);
  }
}

void expect_sound(const SharedCall& call, size_t links) {
  if (static_cast<size_t>(call.share_class) >= kClasses) throw invalid("is of no class");
  if (call.cap != MaxMin::kUnlimited && !is_sound(call.cap)) throw not_sound("has a cap that", call.cap);
  if (!is_sound(call.factor)) throw not_sound("has a factor that", call.factor);
  std::vector<uint32_t> named;
  named.reserve(call.footprint.size());
  for (const LinkUse& use : call.footprint) {
    if (use.link >= links) {
      throw invalid("uses link " + std::to_string(use.link) + ", but there are " + std::to_string(links) +
                    ", counted from 0");
    }
    if (!is_sound(use.bytes)) {
      throw not_sound("moves bytes over link " + std::to_string(use.link) + " whose number", use.bytes);
    }
    named.push_back(use.link);
  }
  std::sort(named.begin(), named.end());
  const auto twice = std::adjacent_find(named.begin(), named.end());
  if (twice != named.end()) throw invalid("names link " + std::to_string(*twice) + " twice; add them up");
}

std::vector<double> allocate(const SharedNetwork& network, std::span<const SharedCall> calls) {
  expect_all_sound(calls, network);
  Filling filling(network, calls);
  // All get their floors first. Then each class rises on what is left.
  filling.fill_floors(network.least);
  filling.fill_rest();
  return filling.speeds();
}

}  // namespace banyan::service
