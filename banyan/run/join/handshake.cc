#include "banyan/run/join/handshake.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/join/peer_owner.h"
#include "banyan/run/seal/password_exchange.h"
#include "banyan/run/seal/primitives.h"
#include "banyan/run/seal/seal.h"

namespace banyan::run {
namespace {

// What goes over the wire, in this order:
//
//   caller  "banyan/2   \n", nonce, share         the version is readable by every version of the other side
//   callee  "banyan/2   \n", nonce                only after a hello that could be one of ours: scanners hear nothing
//   callee  kYes, share, proof                    or kNotHere or kOtherUser instead, then it hangs up
//   caller  kYes, proof, size, sealed greeting    or kNoSecret, kNotHere, kOtherUser, then it hangs up
//
// A greeting is the size of its purpose in one byte, the purpose, and the payload.
constexpr std::string_view kName = "banyan/";
constexpr size_t kVersionSize = 12, kNonceSize = 16;
constexpr size_t kShareSize = PasswordExchange::kShareSize, kProofSize = PasswordExchange::kProofSize;
constexpr size_t kSizeBytes = 2, kLongestPurpose = 255;
constexpr size_t kLongestGreeting = 1 + kLongestPurpose + Greeting::kMaxPayload;
constexpr char kYes = 'y', kNoSecret = 's', kNotHere = 'm', kOtherUser = 'u';

constexpr const char* kMend = " (set BANYAN_SECRET or BANYAN_SECRET_FILE to the same on all hosts)";

std::string hello_version() {
  std::string text = std::string(kName) + std::to_string(Handshake::kVersion);
  text.resize(kVersionSize - 1, ' ');
  return text + '\n';
}

// Whether more bytes could still make a hello of it; whole ones are read by version_of.
bool may_become_hello(std::string_view bytes) {
  const size_t known = std::min(bytes.size(), kName.size());
  return bytes.substr(0, known) == kName.substr(0, known);
}

std::optional<unsigned> version_of(std::string_view hello) {
  unsigned version = 0;
  const char* end = hello.data() + kVersionSize - 1;
  const auto [rest, error] = std::from_chars(hello.data() + kName.size(), end, version);
  if (error != std::errc() || std::string_view(rest, end).find_first_not_of(' ') != std::string_view::npos ||
      *end != '\n') {
    return {};
  }
  return version;
}

struct Address {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;

  // IPv4 addresses in both families alike; empty for sockets without one.
  std::string ip() const {
    char text[INET6_ADDRSTRLEN] = "";
    if (storage.ss_family == AF_INET) {
      inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, text, sizeof text);
    } else if (storage.ss_family == AF_INET6) {
      const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
      if (IN6_IS_ADDR_V4MAPPED(&address)) {
        inet_ntop(AF_INET, &address.s6_addr[12], text, sizeof text);
      } else {
        inet_ntop(AF_INET6, &address, text, sizeof text);
      }
    }
    return text;
  }
  uint16_t port() const {
    return ntohs(storage.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in*>(&storage)->sin_port
                                              : reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  }
};

}  // namespace

class Handshake::Impl {
 public:
  Impl(FileDescriptor socket, const Secret& secret, std::optional<Greeting> greeting)
      : is_caller_(greeting.has_value()),
        socket_(std::move(socket)),
        has_secret_(!secret.is_empty()),
        exchange_(is_caller_, secret.password()),
        own_hello_(hello_version() + random_bytes(kNonceSize)) {
    if (greeting) {
      CHECK(greeting->purpose.size() <= kLongestPurpose && greeting->payload.size() <= Greeting::kMaxPayload)
          << greeting->purpose << " has a payload of " << greeting->payload.size() << " bytes";
      greeting_ = *std::move(greeting);
      out_ = own_hello_ + exchange_.share();
    }
    expect(kVersionSize, &Impl::read_version);
  }

  State advance();
  int fd() const { return socket_.get(); }
  Admitted take() {
    CHECK(state_ == State::done);
    return {.socket = std::move(socket_), .keys = std::move(keys_)};
  }
  const Greeting& greeting() const {
    CHECK(state_ == State::done);
    return greeting_;
  }
  const std::string& refusal() const { return refusal_; }
  bool is_final() const { return is_final_; }

 private:
  using Step = void (Impl::*)();

  // The next step runs when that many bytes have come.
  void expect(size_t size, Step step) {
    in_.clear();
    wanted_ = size;
    step_ = step;
  }
  bool send_some();
  bool receive_some();
  void refuse(const std::string& why);  // for what the peer said
  void fail(const std::string& why);    // for what became of the connection
  // Says `why` here, and no more than `sign` to the peer.
  void decline(char sign, const std::string& why) {
    out_ += sign;
    send_some();  // one byte: it goes now or never
    refuse(why);
  }
  std::string peer() const;
  bool peer_is_here() const;
  void refuse_for_our_user() {
    refuse(peer() + " has no secret, and therefore trusts no process of another user" + kMend);
  }
  void refuse_garbage() { refuse(peer() + " sent something else than a greeting of banyan"); }
  std::string context() const { return is_caller_ ? own_hello_ + peer_hello_ : peer_hello_ + own_hello_; }
  // Without a secret: false when the peer is declined, as it is of another user.
  bool is_owner_trusted();
  std::string key_for(const char* use) const {
    return hkdf_sha256(exchange_.key(), sha256(context()), std::string("banyan ") + use, kSessionKeySize);
  }
  void make_keys();

  void read_version();
  void read_nonce();
  void read_share_of_caller();
  void read_answer();
  void read_share_and_proof();
  void read_greeting_answer();
  void read_proof();
  void read_greeting();

  bool is_caller_;
  FileDescriptor socket_;
  bool has_secret_;
  PasswordExchange exchange_;
  std::string own_hello_, peer_hello_;
  Greeting greeting_;
  SessionKeys keys_;
  std::string out_;  // not sent yet
  std::string in_;   // of what the next step wants
  size_t wanted_ = 0;
  Step step_ = nullptr;  // none: done when all is sent
  State state_ = State::wants_write;
  std::string refusal_;
  bool is_final_ = false;
};

std::string Handshake::Impl::peer() const {
  Address address;
  if (getpeername(socket_.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0) return "the peer";
  const std::string ip = address.ip();
  if (ip.empty()) return "a process of this machine";
  const bool brackets = ip.find(':') != std::string::npos;
  return (brackets ? "[" + ip + "]" : ip) + ":" + std::to_string(address.port());
}

// Packets with a loopback address do not leave the machine; neither do those from an address to itself.
bool Handshake::Impl::peer_is_here() const {
  Address own, other;
  if (getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&own.storage), &own.size) != 0 ||
      getpeername(socket_.get(), reinterpret_cast<sockaddr*>(&other.storage), &other.size) != 0) {
    return false;
  }
  if (own.storage.ss_family == AF_UNIX) return true;
  const std::string ip = other.ip();
  return ip.starts_with("127.") || ip == "::1" || (!ip.empty() && ip == own.ip());
}

void Handshake::Impl::refuse(const std::string& why) {
  fail(why);
  is_final_ = true;
}

void Handshake::Impl::fail(const std::string& why) {
  refusal_ = why;
  state_ = State::refused;
}

Handshake::State Handshake::Impl::advance() {
  while (state_ != State::done && state_ != State::refused) {
    if (!out_.empty()) {
      if (!send_some()) break;
    } else if (step_ == nullptr) {
      state_ = State::done;
    } else if (in_.size() == wanted_) {
      (this->*std::exchange(step_, nullptr))();
    } else if (!receive_some()) {
      break;
    }
  }
  return state_;
}

// False when no more can be done now.
bool Handshake::Impl::send_some() {
  const ssize_t sent = send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
  if (sent >= 0) {
    out_.erase(0, static_cast<size_t>(sent));
    return true;
  }
  if (errno == EINTR) return true;
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    state_ = State::wants_write;
  } else if ((errno == EPIPE || errno == ECONNRESET) && step_ != nullptr) {
    out_.clear();  // it hung up, and may have said why
    return true;
  } else {
    fail(peer() + " cannot be spoken to: " + std::strerror(errno));
  }
  return false;
}

bool Handshake::Impl::receive_some() {
  char buffer[4096];
  const ssize_t count = recv(socket_.get(), buffer, std::min(sizeof buffer, wanted_ - in_.size()), 0);
  if (count > 0) {
    in_.append(buffer, static_cast<size_t>(count));
    if (step_ == &Impl::read_version && !may_become_hello(in_)) {
      refuse_garbage();
      return false;
    }
    return true;
  }
  if (count == 0) {
    fail(peer() + " hung up during the greeting");
    return false;
  }
  if (errno == EINTR) return true;
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    state_ = State::wants_read;
  } else {
    fail(peer() + " cannot be heard: " + std::strerror(errno));
  }
  return false;
}

void Handshake::Impl::read_version() {
  const std::optional<unsigned> version = version_of(in_);
  if (!version) return refuse_garbage();
  if (*version != kVersion) {
    if (!is_caller_) {  // so that it can say so, too
      out_ = own_hello_;
      send_some();
    }
    return refuse(peer() + " speaks banyan/" + std::to_string(*version) + ", this is banyan/" +
                  std::to_string(kVersion));
  }
  peer_hello_ = in_;
  expect(kNonceSize, &Impl::read_nonce);
}

void Handshake::Impl::read_nonce() {
  peer_hello_ += in_;
  if (!is_caller_) out_ = own_hello_;
  if (!has_secret_ && !peer_is_here()) {
    return decline(kNotHere, peer() + " is another machine, and without a secret only this one is trusted" + kMend);
  }
  if (is_caller_) return expect(1, &Impl::read_answer);
  expect(kShareSize, &Impl::read_share_of_caller);
}

void Handshake::Impl::read_share_of_caller() {
  if (!exchange_.take(in_, context())) return refuse_garbage();
  if (!is_owner_trusted()) return;  // now, while an honest caller waits for the answer and cannot have gone
  out_ += kYes + exchange_.share() + exchange_.own_proof();
  expect(1, &Impl::read_greeting_answer);
}

void Handshake::Impl::read_answer() {
  const char answer = in_[0];
  if (answer == kYes) return expect(kShareSize + kProofSize, &Impl::read_share_and_proof);
  if (answer == kNotHere) {
    return refuse(peer() + " has no secret, and therefore trusts no other machine" + kMend);
  }
  if (answer == kOtherUser) return refuse_for_our_user();
  refuse_garbage();
}

void Handshake::Impl::read_share_and_proof() {
  const std::string_view said = in_;
  if (!exchange_.take(said.substr(0, kShareSize), context())) return refuse_garbage();
  if (!exchange_.is_proof_of_peer(said.substr(kShareSize))) {
    return decline(kNoSecret, peer() +
                                  (has_secret_ ? " has another secret than this process, or none"
                                               : " wants a secret, and this process has none") +
                                  kMend);
  }
  if (!is_owner_trusted()) return;
  make_keys();
  const std::string text = static_cast<char>(greeting_.purpose.size()) + greeting_.purpose + greeting_.payload;
  std::string sealed(text.size() + kSealSize, '\0');
  Sealer(key_for("greeting"), Sealing::encrypted)
      .seal({}, {}, std::as_bytes(std::span(text)), reinterpret_cast<std::byte*>(sealed.data()));
  out_ += kYes + exchange_.own_proof();
  out_ += static_cast<char>(sealed.size() & 0xff);
  out_ += static_cast<char>(sealed.size() >> 8);
  out_ += sealed;
}

void Handshake::Impl::read_greeting_answer() {
  switch (in_[0]) {
    case kYes:
      return expect(kProofSize + kSizeBytes, &Impl::read_proof);
    case kNoSecret:
      return refuse(peer() + (has_secret_ ? " does not know the secret" : " has a secret, and this process has none") +
                    kMend);
    case kNotHere:
      return refuse(peer() + " has no secret, and therefore trusts no other machine" + kMend);
    case kOtherUser:
      return refuse_for_our_user();
    default:
      return refuse_garbage();
  }
}

void Handshake::Impl::read_proof() {
  const std::string_view said = in_;
  if (!exchange_.is_proof_of_peer(said.substr(0, kProofSize))) {
    return refuse(peer() + " does not know the secret" + kMend);
  }
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(said[kProofSize + i])); };
  const size_t size = byte(0) | byte(1) << 8;
  if (size < 1 + kSealSize || size > kLongestGreeting + kSealSize) {
    return refuse(peer() + " announced a greeting of " + std::to_string(size) + " bytes; at most " +
                  std::to_string(kLongestGreeting + kSealSize) + " are taken");
  }
  expect(size, &Impl::read_greeting);
}

void Handshake::Impl::read_greeting() {
  std::string text(in_.size() - kSealSize, '\0');
  const bool is_right = Opener(key_for("greeting"), Sealing::encrypted)
                            .open({}, std::as_bytes(std::span(in_)), reinterpret_cast<std::byte*>(text.data()));
  const size_t purpose = static_cast<unsigned char>(text[0]);
  if (!is_right || 1 + purpose > text.size() || text.size() - 1 - purpose > Greeting::kMaxPayload) {
    return refuse(peer() + " sent a greeting that was changed on its way");
  }
  greeting_.purpose = text.substr(1, purpose);
  greeting_.payload = text.substr(1 + purpose);
  make_keys();
}

bool Handshake::Impl::is_owner_trusted() {
  if (has_secret_) return true;
  try {
    const std::optional<std::string> why = stranger_at(socket_.get());
    if (!why) return true;
    decline(kOtherUser, peer() + " " + *why + kMend);
  } catch (const Error& error) {  // it is not known who it is, and may be when it is asked again
    fail(peer() + " is hung up on: " + error.message());
  }
  return false;
}

void Handshake::Impl::make_keys() {
  keys_ = {.sending = key_for("from caller"), .receiving = key_for("from callee")};
  if (!is_caller_) std::swap(keys_.sending, keys_.receiving);
}

Handshake::Handshake(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Handshake::Handshake(Handshake&&) noexcept = default;
Handshake& Handshake::operator=(Handshake&&) noexcept = default;
Handshake::~Handshake() = default;

Handshake Handshake::caller(FileDescriptor socket, const Secret& secret, const Greeting& greeting) {
  return Handshake(std::make_unique<Impl>(std::move(socket), secret, greeting));
}
Handshake Handshake::callee(FileDescriptor socket, const Secret& secret) {
  return Handshake(std::make_unique<Impl>(std::move(socket), secret, std::nullopt));
}

Handshake::State Handshake::advance() { return impl_->advance(); }
int Handshake::fd() const { return impl_->fd(); }
const Greeting& Handshake::greeting() const { return impl_->greeting(); }
Admitted Handshake::take() { return impl_->take(); }
const std::string& Handshake::refusal() const { return impl_->refusal(); }
bool Handshake::is_final() const { return impl_->is_final(); }

}  // namespace banyan::run
