#include "banyan/run/transport/shared_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <utility>

#include "banyan/base/check.h"

namespace banyan::run {
namespace {

constexpr uint64_t kMagic = 0x3167'6e69'7279'6e61;
constexpr size_t kMostRingBytes = size_t{64} << 20;
// The memory: a page of which the first bytes say that it is the right one, then the ring of the side that offers, then
// that of the other.
constexpr size_t kFirstPage = 4096;
constexpr std::byte kShared{1}, kRefused{0}, kBell{2};

uint64_t draw() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

}  // namespace

size_t SharedConnection::memory_bytes(size_t ring_bytes) { return kFirstPage + 2 * ByteRing::memory_bytes(ring_bytes); }

struct SharedConnection::Offer {
  uint64_t magic = kMagic, proof = 0, ring_bytes = 0;
  int32_t process = 0, fd = -1;
};

SharedConnection::SharedConnection(uint32_t peer, FileDescriptor socket, bool offers, size_t ring_bytes)
    : peer_(peer), state_(offers ? State::offering : State::expecting), socket_(peer, std::move(socket)) {
  if (!offers) return;
  ring_bytes_ = ring_bytes;
  memory_ = SharedMemory::with_pages(memory_bytes(ring_bytes));
  const Offer offer{.proof = draw(), .ring_bytes = ring_bytes, .process = getpid(), .fd = memory_.fd()};
  std::memcpy(memory_.data(), &offer.proof, sizeof offer.proof);
  for (const int side : {0, 1}) {
    ByteRing::create(memory_.data() + kFirstPage + static_cast<size_t>(side) * ByteRing::memory_bytes(ring_bytes));
  }
  letter_.resize(sizeof offer);
  std::memcpy(letter_.data(), &offer, sizeof offer);
  try {
    send_offer();
  } catch (const Error&) {  // the connection may have been reset since it was made: the next call finds out
  }
}

bool SharedConnection::is_ready() {
  if (state_ == State::offering) {
    send_offer();
    if (letter_sent_ == letter_.size()) take_answer();
  }
  if (state_ == State::expecting) take_offer();
  if (state_ == State::answering) send_answer();
  return state_ == State::shared || state_ == State::refused;
}

void SharedConnection::send_offer() {
  if (letter_sent_ < letter_.size()) letter_sent_ += socket_.write(std::span(letter_).subspan(letter_sent_), {});
}

void SharedConnection::take_answer() {
  std::byte answer{};
  if (socket_.read({&answer, 1}) == 0) return;
  if (answer == kShared) return share();
  state_ = State::refused;
  memory_ = SharedMemory();
}

void SharedConnection::take_offer() {
  Offer offer;
  while (letter_.size() < sizeof offer) {
    const size_t had = letter_.size();
    letter_.resize(sizeof offer);
    const size_t count = socket_.read(std::span(letter_).subspan(had));
    letter_.resize(had + count);
    if (count == 0) return;
  }
  std::memcpy(&offer, letter_.data(), sizeof offer);
  if (offer.magic != kMagic || !std::has_single_bit(offer.ring_bytes) || offer.ring_bytes > kMostRingBytes) {
    throw Error(ErrorCode::mismatch, "rank " + std::to_string(peer_) +
                                         " does not offer shared memory as this rank does; it may run another version");
  }
  try {
    memory_ = SharedMemory::attach(offer.process, offer.fd, memory_bytes(offer.ring_bytes));
    can_share_ = std::memcmp(memory_.data(), &offer.proof, sizeof offer.proof) == 0;
  } catch (const Error&) {
    can_share_ = false;  // the socket does as well; whether the peer is dead shows there too
  }
  ring_bytes_ = offer.ring_bytes;
  state_ = State::answering;
}

void SharedConnection::send_answer() {
  if (socket_.write({can_share_ ? &kShared : &kRefused, 1}, {}) == 0) return;
  if (can_share_) return share();
  state_ = State::refused;
  memory_ = SharedMemory();
}

void SharedConnection::share() {
  std::byte* const first = memory_.data() + kFirstPage;
  std::byte* const second = first + ByteRing::memory_bytes(ring_bytes_);
  const bool has_offered = letter_sent_ > 0;
  out_ = ByteRing(has_offered ? first : second, ring_bytes_);
  in_ = ByteRing(has_offered ? second : first, ring_bytes_);
  state_ = State::shared;
}

Error SharedConnection::gone() const { return connection_error(peer_, ECONNRESET); }

// One byte does: it stays until it is read, and whoever reads it looks at everything.
void SharedConnection::ring_bell() {
  if (send(fd(), &kBell, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
    is_gone_ = true;
  }
}

size_t SharedConnection::write(std::span<const std::byte> head, std::span<const std::byte> body) {
  if (!is_ready()) return 0;
  if (state_ == State::refused) return socket_.write(head, body);
  if (is_gone_) throw gone();
  const size_t count = out_.write(head, body);
  if (count < head.size() + body.size()) is_stuffed_ = true;
  if (count > 0 && out_.shall_wake_reader()) ring_bell();
  return count;
}

std::span<const std::byte> SharedConnection::peek() {
  if (!is_ready()) return {};
  if (state_ == State::refused) return socket_.peek();
  const std::span<const std::byte> arrived = in_.peek();
  if (arrived.empty()) {
    if (is_gone_) throw gone();
    is_hungry_ = true;
  }
  return arrived;
}

void SharedConnection::consume(size_t count) {
  if (state_ == State::refused) return socket_.consume(count);
  in_.consume(count);
  if (in_.shall_wake_writer()) ring_bell();
}

size_t SharedConnection::read(std::span<std::byte> into) {
  if (!is_ready()) return 0;
  if (state_ == State::refused) return socket_.read(into);
  const size_t count = in_.read(into);
  if (count > 0) {
    if (in_.shall_wake_writer()) ring_bell();
  } else {
    if (is_gone_) throw gone();
    is_hungry_ = true;
  }
  return count;
}

short SharedConnection::before_sleep() {
  if (state_ != State::shared) return socket_.before_sleep();
  if (!is_hungry_ && !is_stuffed_) return 0;
  if (is_gone_) return kNoSleep;
  bool has_news = false;
  if (is_hungry_) has_news |= in_.reader_sleeps();
  if (is_stuffed_) has_news |= out_.writer_sleeps();
  is_hungry_ = is_stuffed_ = false;
  return has_news ? kNoSleep : POLLIN;
}

// A socket that is closed with bytes unread resets its connection, and these are no more than bells.
SharedConnection::~SharedConnection() { after_sleep(); }

void SharedConnection::after_sleep() {
  if (state_ != State::shared) return;
  std::array<std::byte, 64> bells;
  const ssize_t count = recv(fd(), bells.data(), bells.size(), MSG_DONTWAIT);
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) is_gone_ = true;
}

}  // namespace banyan::run
