#include "banyan/run/transport/ucx/control.h"

#include <xxhash.h>

#include <cstring>

#include "banyan/base/error.h"

namespace banyan::run::ucx {
namespace {

constexpr uint64_t kMagic = 0x3158'4355'796e'6142;  // "BanyUCX1", the 1 being the version

struct GreetingHead {
  uint64_t magic;
  uint64_t ticket;
  uint64_t digest;  // of the address: UCX trusts what it is given
  uint32_t lanes;
  uint32_t your_rank;
  uint32_t address_size;
  uint32_t zero;
};

enum class Kind : uint64_t { farewell = 1, receipt = 2 };

void append(std::vector<std::byte>& bytes, const void* from, size_t size) {
  bytes.resize(bytes.size() + size);
  std::memcpy(bytes.data() + bytes.size() - size, from, size);
}

uint64_t digest_of(std::span<const std::byte> bytes) { return XXH64(bytes.data(), bytes.size(), kMagic); }

}  // namespace

std::vector<std::byte> to_bytes(const Greeting& greeting) {
  const GreetingHead head{.magic = kMagic,
                          .ticket = greeting.ticket,
                          .digest = digest_of(greeting.address),
                          .lanes = greeting.lanes,
                          .your_rank = greeting.your_rank,
                          .address_size = static_cast<uint32_t>(greeting.address.size()),
                          .zero = 0};
  std::vector<std::byte> bytes;
  append(bytes, &head, sizeof head);
  if (!greeting.address.empty()) append(bytes, greeting.address.data(), greeting.address.size());
  return bytes;
}

std::vector<std::byte> farewell_to_bytes(const std::vector<uint64_t>& sent_per_lane) {
  std::vector<std::byte> bytes;
  const Kind kind = Kind::farewell;
  append(bytes, &kind, sizeof kind);
  for (const uint64_t sent : sent_per_lane) append(bytes, &sent, sizeof sent);
  return bytes;
}

std::vector<std::byte> receipt_to_bytes() {
  std::vector<std::byte> bytes;
  const Kind kind = Kind::receipt;
  append(bytes, &kind, sizeof kind);
  return bytes;
}

void ControlReader::take(std::span<const std::byte> bytes) {
  unread_.insert(unread_.end(), bytes.begin(), bytes.end());
  while (greeting_ ? read_message() : read_greeting()) {
  }
}

// These say whether they found all of what they read.
bool ControlReader::read_greeting() {
  GreetingHead head;
  if (unread_.size() < sizeof head) return false;
  std::memcpy(&head, unread_.data(), sizeof head);
  if (head.magic != kMagic || head.zero != 0) {
    throw Error(ErrorCode::mismatch,
                sender_ + " does not speak this version of the UCX transport, or uses another one");
  }
  if (head.lanes != lanes_) {
    throw Error(ErrorCode::mismatch, sender_ + " has " + std::to_string(head.lanes) + " lanes per peer where " +
                                         std::to_string(lanes_) + " are used here");
  }
  if (head.address_size == 0 || head.address_size > Greeting::kMaxAddress) {
    throw Error(ErrorCode::invalid_input, sender_ + " sends a UCX address of " + std::to_string(head.address_size) +
                                              " bytes; 1 to " + std::to_string(Greeting::kMaxAddress) +
                                              " are possible");
  }
  if (unread_.size() < sizeof head + head.address_size) return false;
  const std::span<const std::byte> address = std::span(unread_).subspan(sizeof head, head.address_size);
  if (digest_of(address) != head.digest) {
    throw Error(ErrorCode::invalid_input, sender_ + " sends a UCX address that is damaged");
  }
  greeting_ = Greeting{.lanes = head.lanes,
                       .your_rank = head.your_rank,
                       .ticket = head.ticket,
                       .address = {address.begin(), address.end()}};
  drop(sizeof head + head.address_size);
  return true;
}

bool ControlReader::read_message() {
  Kind kind;
  if (unread_.size() < sizeof kind) return false;
  std::memcpy(&kind, unread_.data(), sizeof kind);
  if (kind == Kind::receipt && !has_receipt_) {
    has_receipt_ = true;
    drop(sizeof kind);
    return true;
  }
  if (kind != Kind::farewell || farewell_) {
    throw Error(ErrorCode::invalid_input, sender_ + " sends bytes that are no message of the UCX transport");
  }
  const size_t size = lanes_ * sizeof(uint64_t);
  if (unread_.size() < sizeof kind + size) return false;
  farewell_.emplace(lanes_);
  std::memcpy(farewell_->data(), unread_.data() + sizeof kind, size);
  drop(sizeof kind + size);
  return true;
}

void ControlReader::drop(size_t count) {
  unread_.erase(unread_.begin(), unread_.begin() + static_cast<ptrdiff_t>(count));
}

}  // namespace banyan::run::ucx
