#include "banyan/run/join/handshake.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/rand.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::run {
namespace {

// What goes over the wire, in this order:
//
//   caller  "banyan/1   \n", nonce       the version is readable by every version of the other side
//   callee  "banyan/1   \n", nonce       only after a hello that could be one of ours: scanners hear nothing
//   caller  kYes, proof                  HMAC("banyan caller", both hellos with their nonces)
//   callee  kYes, proof                  or kNoSecret, kNotHere instead, then it hangs up
//   caller  kYes, sizes, purpose, payload        or kNoSecret, then it hangs up
//
// A proof that is sent back to who made it is worth nothing, since it names the role.
constexpr std::string_view kName = "banyan/";
constexpr unsigned kVersion = 1;
constexpr size_t kVersionSize = 12, kNonceSize = 16, kProofSize = 32;
constexpr size_t kGreetingHead = 3;  // size of the purpose, size of the payload in two bytes
constexpr char kYes = 'y', kNoSecret = 's', kNotHere = 'm';

constexpr const char* kMend = " (set BANYAN_SECRET or BANYAN_SECRET_FILE to the same on all hosts)";

std::string hello_version() {
  std::string text = std::string(kName) + std::to_string(kVersion);
  text.resize(kVersionSize - 1, ' ');
  return text + '\n';
}

std::string fresh_nonce() {
  std::string nonce(kNonceSize, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) != 1) {
    throw Error(ErrorCode::io, "the system gives no random numbers");
  }
  return nonce;
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
  Impl(FileDescriptor socket, Secret secret, std::optional<Greeting> greeting)
      : is_caller_(greeting.has_value()),
        socket_(std::move(socket)),
        secret_(std::move(secret)),
        own_hello_(hello_version() + fresh_nonce()) {
    if (greeting) {
      CHECK(greeting->purpose.size() <= 255 && greeting->payload.size() <= Greeting::kMaxPayload)
          << greeting->purpose << " has a payload of " << greeting->payload.size() << " bytes";
      greeting_ = *std::move(greeting);
      out_ = own_hello_;
    }
    expect(kVersionSize, &Impl::read_version);
  }

  State advance();
  int fd() const { return socket_.get(); }
  FileDescriptor take_socket() {
    CHECK(state_ == State::done);
    return std::move(socket_);
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
  std::string message_of(bool by_caller) const {
    const std::string& caller = is_caller_ ? own_hello_ : peer_hello_;
    const std::string& callee = is_caller_ ? peer_hello_ : own_hello_;
    return (by_caller ? "banyan caller" : "banyan callee") + caller + callee;
  }
  void prove() { out_ += kYes + secret_.sign(message_of(is_caller_)); }

  void read_version();
  void read_nonce();
  void read_answer();
  void read_proof();
  void read_greeting_answer();
  void read_greeting_head();
  void read_greeting();

  bool is_caller_;
  FileDescriptor socket_;
  Secret secret_;
  std::string own_hello_, peer_hello_;
  Greeting greeting_;
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
      refuse(peer() + " sent something else than a greeting of banyan");
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
  if (!version) return refuse(peer() + " sent something else than a greeting of banyan");
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
  if (secret_.is_empty() && !peer_is_here()) {
    return decline(kNotHere, peer() + " is another machine, and without a secret only this one is trusted" + kMend);
  }
  if (is_caller_) prove();
  expect(1, &Impl::read_answer);
}

void Handshake::Impl::read_answer() {
  const char answer = in_[0];
  if (answer == kYes) return expect(kProofSize, &Impl::read_proof);
  if (answer == kNoSecret) {
    return refuse(peer() +
                  (secret_.is_empty() ? " wants a secret, and this process has none"
                                      : " has another secret than this process, or none") +
                  kMend);
  }
  if (answer == kNotHere) {
    return refuse(peer() + " has no secret, and therefore trusts no other machine" + kMend);
  }
  refuse(peer() + " sent something else than a greeting of banyan");
}

void Handshake::Impl::read_proof() {
  if (!secret_.is_signature(message_of(!is_caller_), in_)) {
    return decline(kNoSecret,
                   peer() +
                       (secret_.is_empty() ? " has a secret, and this process has none" : " does not know the secret") +
                       kMend);
  }
  if (!is_caller_) {
    prove();
    return expect(1, &Impl::read_greeting_answer);
  }
  const size_t size = greeting_.payload.size();
  out_ += kYes;
  out_ += static_cast<char>(greeting_.purpose.size());
  out_ += static_cast<char>(size & 0xff);
  out_ += static_cast<char>(size >> 8);
  out_ += greeting_.purpose + greeting_.payload;
}

void Handshake::Impl::read_greeting_answer() {
  if (in_[0] == kYes) return expect(kGreetingHead, &Impl::read_greeting_head);
  refuse(peer() + " hung up, as this process did not prove that it knows the secret" + kMend);
}

void Handshake::Impl::read_greeting_head() {
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(in_[i])); };
  const size_t purpose = byte(0), payload = byte(1) | byte(2) << 8;
  if (payload > Greeting::kMaxPayload) {
    return refuse(peer() + " announced a payload of " + std::to_string(payload) + " bytes; at most " +
                  std::to_string(Greeting::kMaxPayload) + " are taken");
  }
  greeting_.purpose.resize(purpose);
  greeting_.payload.resize(payload);
  expect(purpose + payload, &Impl::read_greeting);
}

void Handshake::Impl::read_greeting() {
  const size_t purpose = greeting_.purpose.size();
  greeting_.purpose = in_.substr(0, purpose);
  greeting_.payload = in_.substr(purpose);
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
FileDescriptor Handshake::take_socket() { return impl_->take_socket(); }
const std::string& Handshake::refusal() const { return impl_->refusal(); }
bool Handshake::is_final() const { return impl_->is_final(); }

}  // namespace banyan::run
