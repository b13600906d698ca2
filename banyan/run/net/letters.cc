#include "banyan/run/net/letters.h"

#include <algorithm>
#include <string>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan {
namespace {

constexpr uint64_t kMagic = 0x7265'7474'656c'6e62;  // "bnletter"

}  // namespace

Letters::Ticket Letters::send(uint32_t channel, std::span<const std::byte> bytes) {
  const Letter letter{.ticket = next_,
                      .bytes = const_cast<std::byte*>(bytes.data()),
                      .size = bytes.size(),
                      .done = 0,
                      .header = {.magic = kMagic, .size = bytes.size()}};
  out_[channel].push_back(letter);
  ++open_;
  return next_++;
}

Letters::Ticket Letters::receive(uint32_t channel, std::span<std::byte> bytes) {
  in_[channel].push_back({.ticket = next_, .bytes = bytes.data(), .size = bytes.size(), .done = 0, .header = {}});
  ++open_;
  return next_++;
}

bool Letters::is_done(Ticket ticket) const {
  const auto has = [&](const auto& queues) {
    return std::any_of(queues.begin(), queues.end(), [&](const auto& queue) {
      return std::any_of(queue.second.begin(), queue.second.end(),
                         [&](const Letter& letter) { return letter.ticket == ticket; });
    });
  };
  return !has(out_) && !has(in_);
}

uint32_t Letters::waiting_for() const {
  for (const auto* queues : {&in_, &out_}) {
    for (const auto& [channel, queue] : *queues) {
      if (!queue.empty()) return channel;
    }
  }
  CHECK(false) << "nothing is open";
  return 0;
}

bool Letters::advance() {
  if (open_ == 0) return false;
  bool moved = false;
  for (auto& [channel, queue] : out_) {
    while (!queue.empty() && write(channel, queue.front())) {
      moved = true;
      if (queue.front().done < sizeof(Header) + queue.front().size) break;
      queue.pop_front();
      --open_;
    }
  }
  for (auto& [channel, queue] : in_) {
    while (!queue.empty() && read(channel, queue.front())) {
      moved = true;
      if (queue.front().done < sizeof(Header) + queue.front().size) break;
      queue.pop_front();
      --open_;
    }
  }
  return moved;
}

bool Letters::write(uint32_t channel, Letter& letter) {
  const auto header = std::as_bytes(std::span(&letter.header, 1));
  const size_t of_header = std::min(letter.done, header.size());
  const std::span<const std::byte> body(letter.bytes, letter.size);
  const size_t count = transport_.write(channel, header.subspan(of_header), body.subspan(letter.done - of_header));
  letter.done += count;
  return count > 0;
}

bool Letters::read(uint32_t channel, Letter& letter) {
  size_t count = 0;
  if (letter.done < sizeof(Header)) {
    const auto header = std::as_writable_bytes(std::span(&letter.header, 1));
    count = transport_.read(channel, header.subspan(letter.done));
    letter.done += count;
    if (letter.done < sizeof(Header)) return count > 0;
    if (letter.header.magic != kMagic || letter.header.size != letter.size) {
      throw Error(ErrorCode::mismatch, "a peer sent " + std::to_string(letter.header.size) +
                                           " bytes where this rank expects " + std::to_string(letter.size));
    }
    if (letter.size == 0) return true;
  }
  const size_t begin = letter.done - sizeof(Header);
  const size_t of_body = transport_.read(channel, {letter.bytes + begin, letter.size - begin});
  letter.done += of_body;
  return count + of_body > 0;
}

}  // namespace banyan
