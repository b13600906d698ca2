#include "banyan/testing/simulated_transport.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::testing {

class SimulatedWorld::RankTransport : public run::Transport {
 public:
  RankTransport(SimulatedWorld& world, uint32_t rank) : world_(world), rank_(rank) {}

  size_t write(uint32_t channel, std::span<const std::byte> head, std::span<const std::byte> body) override {
    return write(channel, head, body, false);
  }

  size_t write_lasting(uint32_t channel, std::span<const std::byte> head, std::span<const std::byte> body) override {
    return write(channel, head, body, world_.options_.reads_late);
  }

  size_t write(uint32_t channel, std::span<const std::byte> head, std::span<const std::byte> body, bool lasts) {
    Way& way = way_to(channel);
    if (world_.writes_left_ > 0 && --world_.writes_left_ == 0) break_lane(channel);
    if (way.is_broken) throw lost(channel);
    const size_t count = some_of(std::min(way.capacity - way.bytes.size(), head.size() + body.size()));
    const size_t of_head = std::min(count, head.size());
    way.put(head.first(of_head), false);
    way.put(body.first(count - of_head), lasts);
    world_.written_[rank_] += count;
    return count;
  }

  std::span<const std::byte> peek(uint32_t channel) override {
    const Way& way = way_from(channel);
    if (way.is_lost()) throw lost(channel);
    shown_ = some_of(way.arrived);
    return std::span(way.bytes).first(shown_);
  }

  void consume(uint32_t channel, size_t count) override {
    CHECK(count <= shown_) << count << " of the " << shown_ << " bytes shown";
    shown_ = 0;
    drop(way_from(channel), count);
  }

  size_t read(uint32_t channel, std::span<std::byte> into) override {
    Way& way = way_from(channel);
    if (way.is_lost()) throw lost(channel);
    const size_t count = some_of(std::min(way.arrived, into.size()));
    if (count > 0) std::memcpy(into.data(), way.bytes.data(), count);
    drop(way, count);
    return count;
  }

  void wait(std::chrono::milliseconds) override { CHECK(false) << "a simulated rank never sleeps"; }

 private:
  uint32_t peer_of(uint32_t channel) const { return channel % world_.options_.ranks; }
  uint32_t lane_of(uint32_t channel) const { return channel / world_.options_.ranks; }
  Way& way_to(uint32_t channel) { return world_.way(rank_, peer_of(channel), lane_of(channel)); }
  Way& way_from(uint32_t channel) { return world_.way(peer_of(channel), rank_, lane_of(channel)); }

  void break_lane(uint32_t channel) {
    way_to(channel).break_off();
    way_from(channel).break_off();
    world_.has_broken_ = true;
  }

  Error lost(uint32_t channel) const {
    return Error(ErrorCode::peer_lost, "the connection to rank " + std::to_string(peer_of(channel)) + " (lane " +
                                           std::to_string(lane_of(channel)) + ") was lost");
  }

  // Mostly all, sometimes nothing, else something between.
  size_t some_of(size_t count) {
    if (world_.options_.is_smooth) return count;
    const uint64_t chance = world_.draw(4);
    return count == 0 || chance == 0 ? 0 : chance == 1 ? 1 + world_.draw(count) : count;
  }

  static void drop(Way& way, size_t count) {
    way.bytes.erase(way.bytes.begin(), way.bytes.begin() + static_cast<ptrdiff_t>(count));
    way.lent.erase(way.lent.begin(), way.lent.begin() + static_cast<ptrdiff_t>(count));
    way.arrived -= count;
  }

  SimulatedWorld& world_;
  uint32_t rank_;
  size_t shown_ = 0;
};

SimulatedWorld::SimulatedWorld(const Options& options)
    : options_(options),
      random_(options.seed),
      ways_(size_t{options.ranks} * options.ranks * options.lanes),
      written_(options.ranks) {
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    transports_.push_back(std::make_unique<RankTransport>(*this, rank));
  }
  for (Way& way : ways_) {
    way.capacity = options.least_capacity + draw(options.most_capacity - options.least_capacity + 1);
  }
}

SimulatedWorld::~SimulatedWorld() = default;

bool SimulatedWorld::deliver_some() {
  const size_t first = draw(ways_.size());
  for (size_t i = 0; i < ways_.size(); ++i) {
    Way& way = ways_[(first + i) % ways_.size()];
    const size_t under_way = way.bytes.size() - way.arrived;
    if (under_way == 0) continue;
    way.arrive(options_.is_smooth || draw(2) == 0 ? under_way : 1 + draw(under_way));
    return true;
  }
  return false;
}

void SimulatedWorld::inject(uint32_t from, uint32_t to, std::span<const std::byte> bytes) {
  way(from, to).put(bytes, false);
}

bool SimulatedWorld::has_unsent(uint32_t rank) const {
  for (uint32_t peer = 0; peer < options_.ranks; ++peer) {
    for (uint32_t lane = 0; lane < options_.lanes; ++lane) {
      const Way& way = ways_[place_of(rank, peer, lane)];
      const auto on_their_way = way.lent.begin() + static_cast<ptrdiff_t>(way.arrived);
      if (std::any_of(on_their_way, way.lent.end(), [](const std::byte* at) { return at != nullptr; })) return true;
    }
  }
  return false;
}

bool SimulatedWorld::is_quiet() const {
  return std::all_of(ways_.begin(), ways_.end(), [](const Way& way) { return way.bytes.empty(); });
}

void SimulatedWorld::Way::put(std::span<const std::byte> more, bool lasts) {
  for (const std::byte& byte : more) {
    bytes.push_back(lasts ? std::byte{0xee} : byte);
    lent.push_back(lasts ? &byte : nullptr);
  }
}

void SimulatedWorld::Way::arrive(size_t count) {
  for (const size_t end = arrived + count; arrived < end; ++arrived) {
    if (lent[arrived] != nullptr) bytes[arrived] = *lent[arrived];
  }
}

void SimulatedWorld::Way::break_off() {
  bytes.clear();
  lent.clear();
  arrived = 0;
  is_broken = true;
}

void SimulatedWorld::cut(uint32_t a, uint32_t b) {
  for (uint32_t lane = 0; lane < options_.lanes; ++lane) {
    way(a, b, lane).break_off();
    way(b, a, lane).break_off();
  }
  has_broken_ = true;
}

void SimulatedWorld::end_rank(uint32_t rank) {
  for (uint32_t peer = 0; peer < options_.ranks; ++peer) {
    for (uint32_t lane = 0; lane < options_.lanes; ++lane) {
      way(rank, peer, lane).is_over = true;
      way(peer, rank, lane).break_off();
    }
  }
  has_broken_ = true;
}

void SimulatedWorld::mend() {
  for (Way& way : ways_) way = {.capacity = way.capacity, .bytes = {}, .lent = {}};
  writes_left_ = 0;
  has_broken_ = false;
}

}  // namespace banyan::testing
