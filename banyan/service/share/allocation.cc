#include "banyan/service/share/allocation.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string>

#include "banyan/base/error.h"
#include "banyan/predict/fluid/max_min.h"

namespace banyan::service {
namespace {

using predict::MaxMin;
constexpr size_t kClasses = 3;

void expect_amount(double amount, const std::string& what) {
  if (amount >= kLeastAmount && amount <= kMostAmount) return;
  std::ostringstream text;
  text << what << " is " << amount << ", not from " << kLeastAmount << " to " << kMostAmount;
  throw invalid(text.str());
}

void expect_sound(const SharedNetwork& network) {
  if (!(network.least >= 0 && network.least <= SharedNetwork::kMostLeast)) {
    throw invalid("the least share of a class is " + std::to_string(network.least) + ", not from 0 to a third");
  }
  for (size_t link = 0; link < network.capacities.size(); ++link) {
    expect_amount(network.capacities[link], "the capacity of link " + std::to_string(link));
  }
  for (size_t tenant = 0; tenant < network.weights.size(); ++tenant) {
    expect_amount(network.weights[tenant], "the weight of tenant " + std::to_string(tenant));
  }
}

void expect_sound(std::span<const SharedCall> calls, const SharedNetwork& network) {
  std::vector<size_t> user(network.capacities.size(), calls.size());  // the last call seen on a link
  for (size_t i = 0; i < calls.size(); ++i) {
    const SharedCall& call = calls[i];
    const std::string name = "call " + std::to_string(i);
    if (call.tenant >= network.weights.size()) {
      throw invalid(name + " is of tenant " + std::to_string(call.tenant) + ", but there are " +
                    std::to_string(network.weights.size()) + ", counted from 0");
    }
    if (static_cast<size_t>(call.share_class) >= kClasses) throw invalid(name + " is of no class");
    if (call.cap != MaxMin::kUnlimited) expect_amount(call.cap, "the cap of " + name);
    for (const LinkUse& use : call.footprint) {
      if (use.link >= user.size()) {
        throw invalid(name + " uses link " + std::to_string(use.link) + ", but there are " +
                      std::to_string(user.size()) + ", counted from 0");
      }
      expect_amount(use.bytes, "what " + name + " moves over link " + std::to_string(use.link));
      if (user[use.link] == i) throw invalid(name + " names link " + std::to_string(use.link) + " twice; add them up");
      user[use.link] = i;
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
    if (call.footprint.empty()) continue;
    classes_[static_cast<size_t>(call.share_class)].push_back(i);
    ++under_way[call.tenant][static_cast<size_t>(call.share_class)];
    double most_bytes = 0;
    for (const LinkUse& use : call.footprint) {
      rows_[i].seconds = std::max(rows_[i].seconds, use.bytes / network.capacities[use.link]);
      most_bytes = std::max(most_bytes, use.bytes);
    }
    for (const LinkUse& use : call.footprint) {
      rows_[i].hops.push_back({use.link, use.bytes / network.capacities[use.link] / rows_[i].seconds});
    }
    rows_[i].most = call.cap / most_bytes * rows_[i].seconds;
  }
  for (size_t share_class = 0; share_class < kClasses; ++share_class) {
    for (const uint32_t i : classes_[share_class]) {
      const uint32_t tenant = calls[i].tenant;
      rows_[i].weight = network.weights[tenant] / under_way[tenant][share_class];
    }
  }
}

void Filling::raise(const std::vector<uint32_t>& calls, std::vector<double> capacities) {
  MaxMin solver(std::move(capacities));
  std::vector<uint32_t> rising;
  for (const uint32_t i : calls) {
    const Row& row = rows_[i];
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
    if (!is_highest) raise(calls, std::vector<double>(left_.size(), least));
    is_highest = false;
  }
}

void Filling::fill_rest() {
  for (const std::vector<uint32_t>& calls : classes_) {
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

std::vector<double> allocate(const SharedNetwork& network, std::span<const SharedCall> calls) {
  expect_sound(network);
  expect_sound(calls, network);
  Filling filling(network, calls);
  filling.fill_floors(network.least);
  filling.fill_rest();
  return filling.speeds();
}

}  // namespace banyan::service
