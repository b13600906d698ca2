#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "banyan/run/system/futex.h"
#include "banyan/run/transport/byte_ring.h"
#include "banyan/testing/orders/explorer.h"

namespace banyan::testing::orders {
namespace {

using run::ByteRing;

constexpr size_t kCapacity = 4;

struct Stream {
  alignas(64) std::array<std::byte, 4 * 64 + kCapacity> memory{};
  ByteRing ring;

  explicit Stream(Trial& trial) {
    ByteRing::create(memory.data());
    ring = ByteRing(memory.data(), kCapacity);
    trial.name(memory.data(), "written");
    trial.name(memory.data() + 64, "read");
    trial.name(memory.data() + 128, "writer_waits");
    trial.name(memory.data() + 192, "reader_waits");
  }
};

constexpr std::byte byte_at(size_t position) { return std::byte(position + 1); }

// Six bytes through a ring of four, in pieces.
void bytes_pass(Trial& trial) {
  auto& stream = *new Stream(trial);
  constexpr size_t kBytes = 6;
  trial.thread("writer", [&trial, &stream] {
    for (size_t sent = 0; sent < kBytes;) {
      const std::array piece{byte_at(sent), byte_at(sent + 1), byte_at(sent + 2)};
      trial.await([&] { return stream.ring.room() > 0; });
      sent += stream.ring.write(std::span(piece).first(1), std::span(piece).subspan(1));
    }
  });
  trial.thread("reader", [&trial, &stream] {
    for (size_t read = 0; read < kBytes;) {
      trial.await([&] { return stream.ring.taken() > 0; });
      std::array<std::byte, 3> into{};
      const size_t count = stream.ring.read(into);
      for (size_t i = 0; i < count; ++i, ++read) trial.expect(into[i] == byte_at(read), "another byte");
    }
  });
}

// What lies in a socket until it is read, and wakes who polls.
class Bell {
 public:
  void ring() {
    is_rung_.store(1);
    run::futex_wake_all(is_rung_);
  }
  void sleep() {
    while (is_rung_.exchange(0) == 0) run::futex_wait(is_rung_, 0, {});
  }

 private:
  std::atomic<uint32_t> is_rung_{0};
};

// Each side sleeps where it finds nothing, or no room, and is woken by the other, as SharedConnection does it.
void sides_sleep(Trial& trial) {
  struct World {
    Stream stream;
    Bell writers, readers;
  };
  auto& world = *new World{.stream = Stream(trial), .writers = {}, .readers = {}};
  constexpr size_t kPieces = 2;
  trial.thread("writer", [&world] {
    ByteRing& ring = world.stream.ring;
    constexpr std::array<std::byte, kCapacity> kPiece{};
    for (size_t i = 0; i < kPieces; ++i) {
      while (ring.write(kPiece, {}) == 0) {
        if (!ring.writer_sleeps()) world.writers.sleep();
      }
      if (ring.shall_wake_reader()) world.readers.ring();
    }
  });
  trial.thread("reader", [&world] {
    ByteRing& ring = world.stream.ring;
    for (size_t i = 0; i < kPieces; ++i) {
      while (ring.taken() == 0) {
        if (!ring.reader_sleeps()) world.readers.sleep();
      }
      ring.consume(kCapacity);
      if (ring.shall_wake_writer()) world.writers.ring();
    }
  });
}

TEST(ByteRingOrders, AllCount) { EXPECT_EQ(every_order_counts({"byte_ring.cc"}, {bytes_pass, sides_sleep}), ""); }

}  // namespace
}  // namespace banyan::testing::orders
