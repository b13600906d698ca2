#include "banyan/testing/simulated_transport.h"

#include <algorithm>
#include <cstring>

#include "banyan/base/check.h"

namespace banyan {

class SimulatedWorld::RankTransport : public Transport {
 public:
  RankTransport(SimulatedWorld& world, uint32_t rank) : world_(world), rank_(rank) {}

  size_t write(uint32_t peer, std::span<const std::byte> head, std::span<const std::byte> body) override {
    Pair& pair = world_.pair(rank_, peer);
    const size_t count = some_of(std::min(pair.capacity - pair.bytes.size(), head.size() + body.size()));
    const size_t of_head = std::min(count, head.size());
    pair.bytes.insert(pair.bytes.end(), head.begin(), head.begin() + static_cast<ptrdiff_t>(of_head));
    pair.bytes.insert(pair.bytes.end(), body.begin(), body.begin() + static_cast<ptrdiff_t>(count - of_head));
    return count;
  }

  std::span<const std::byte> peek(uint32_t peer) override {
    const Pair& pair = world_.pair(peer, rank_);
    shown_ = some_of(pair.arrived);
    return std::span(pair.bytes).first(shown_);
  }

  void consume(uint32_t peer, size_t count) override {
    CHECK(count <= shown_) << count << " of the " << shown_ << " bytes shown";
    shown_ = 0;
    drop(world_.pair(peer, rank_), count);
  }

  size_t read(uint32_t peer, std::span<std::byte> into) override {
    Pair& pair = world_.pair(peer, rank_);
    const size_t count = some_of(std::min(pair.arrived, into.size()));
    if (count > 0) std::memcpy(into.data(), pair.bytes.data(), count);
    drop(pair, count);
    return count;
  }

  void wait(std::chrono::milliseconds) override { CHECK(false) << "a simulated rank never sleeps"; }

 private:
  // Mostly all, sometimes nothing, else something between.
  size_t some_of(size_t count) {
    const uint64_t chance = world_.draw(4);
    return count == 0 || chance == 0 ? 0 : chance == 1 ? 1 + world_.draw(count) : count;
  }

  static void drop(Pair& pair, size_t count) {
    pair.bytes.erase(pair.bytes.begin(), pair.bytes.begin() + static_cast<ptrdiff_t>(count));
    pair.arrived -= count;
  }

  SimulatedWorld& world_;
  uint32_t rank_;
  size_t shown_ = 0;
};

SimulatedWorld::SimulatedWorld(const Options& options)
    : random_(options.seed), pairs_(size_t{options.ranks} * options.ranks) {
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    transports_.push_back(std::make_unique<RankTransport>(*this, rank));
  }
  for (Pair& pair : pairs_) {
    pair.capacity = options.least_capacity + draw(options.most_capacity - options.least_capacity + 1);
  }
}

SimulatedWorld::~SimulatedWorld() = default;

bool SimulatedWorld::deliver_some() {
  const size_t first = draw(pairs_.size());
  for (size_t i = 0; i < pairs_.size(); ++i) {
    Pair& pair = pairs_[(first + i) % pairs_.size()];
    const size_t under_way = pair.bytes.size() - pair.arrived;
    if (under_way == 0) continue;
    pair.arrived += draw(2) == 0 ? under_way : 1 + draw(under_way);
    return true;
  }
  return false;
}

void SimulatedWorld::inject(uint32_t from, uint32_t to, std::span<const std::byte> bytes) {
  std::vector<std::byte>& way = pair(from, to).bytes;
  way.insert(way.end(), bytes.begin(), bytes.end());
}

bool SimulatedWorld::is_quiet() const {
  return std::all_of(pairs_.begin(), pairs_.end(), [](const Pair& pair) { return pair.bytes.empty(); });
}

}  // namespace banyan
