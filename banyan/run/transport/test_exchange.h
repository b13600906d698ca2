// For tests of transports: two ranks send each other bytes that tell their position in the stream.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "banyan/run/transport/transport.h"

namespace banyan::run {

inline std::byte byte_at(uint64_t position) { return static_cast<std::byte>(position * 0x9e3779b97f4a7c15u >> 56); }

inline std::vector<std::byte> bytes_from(uint64_t position, size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = byte_at(position + i);
  return bytes;
}

// How many of the bytes are not those from `position` on.
inline uint64_t count_wrong(uint64_t position, std::span<const std::byte> bytes) {
  uint64_t wrong = 0;
  for (size_t i = 0; i < bytes.size(); ++i) wrong += bytes[i] != byte_at(position + i) ? 1 : 0;
  return wrong;
}

// Sends `total` bytes to the peer and receives as many from it, in pieces of any size, by all the calls there are.
inline std::string exchange(Transport& transport, uint32_t peer, uint64_t total, uint64_t seed) {
  std::mt19937_64 random(seed);
  uint64_t sent = 0, received = 0, wrong = 0;
  std::vector<std::byte> into(20'000);
  while (sent < total || received < total) {
    bool moved = false;
    if (sent < total) {
      const size_t head = random() % 40, body = random() % 30'000;
      const auto bytes = bytes_from(sent, std::min<uint64_t>(head + body, total - sent));
      const size_t of_head = std::min(head, bytes.size());
      const size_t count = transport.write(peer, std::span(bytes).first(of_head), std::span(bytes).subspan(of_head));
      sent += count;
      moved |= count > 0;
    }
    if (received < total && random() % 2 == 0) {
      const std::span<const std::byte> seen = transport.peek(peer);
      const size_t count = seen.empty() ? 0 : 1 + random() % seen.size();
      wrong += count_wrong(received, seen.first(count));
      transport.consume(peer, count);
      received += count;
      moved |= count > 0;
    } else if (received < total) {
      const size_t count = transport.read(peer, std::span(into).first(1 + random() % into.size()));
      wrong += count_wrong(received, std::span(into).first(count));
      received += count;
      moved |= count > 0;
    }
    if (!moved) transport.wait(std::chrono::seconds(10));
  }
  return std::to_string(wrong) + " wrong";
}

}  // namespace banyan::run
