#include "banyan/run/join/handshake.h"

#include <poll.h>
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
#include "banyan/run/join/network.h"
#include "banyan/run/join/peer_owner.h"
#include "banyan/run/join/socket_address.h"
#include "banyan/run/join/wire.h"
#include "banyan/run/seal/tls_session.h"

namespace banyan::run {
namespace {

// What goes over the wire, in this order:
//
//   caller  "banyan/3   \n", kSecret or kPlain     the version is readable by every version of the other side
//   callee  "banyan/3   \n"                        only after a hello that could be one of ours: scanners hear nothing
//   callee  kYes                                   or why not, then it hangs up
//
// With a secret the records of TLS come next; the caller's first one follows its kSecret at once, and its last ones
// hold the size of the payload in two bytes, and the payload. Without one:
//
//   caller  kYes, size, call, payload              or kNotHere, kOtherUser, then it hangs up
//
// A call is the purpose and the names of both. With a secret it is the identity of the key.
constexpr std::string_view kName = "banyan/";
constexpr size_t kVersionSize = 12, kSizeBytes = 2, kLongestName = 255;
// Each side needs four records; more cost time, however short they are.
constexpr int kMostRecords = 16;
constexpr char kSecret = 't', kPlain = 'p';
constexpr char kYes = 'y', kWantsSecret = 's', kNoSecret = 'n', kNotHere = 'm', kOtherUser = 'u';

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

std::string size_of(const std::string& text) {
  return {static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
}
size_t size_in(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
  return byte(0) | byte(1) << 8;
}

std::string call_of(const Greeting& greeting) {
  return WireWriter().text(greeting.purpose).text(greeting.from).text(greeting.to).take();
}
// Throws Error{invalid_input}.
Greeting read_call(WireReader& reader) {
  Greeting greeting{.purpose = reader.text(), .payload = {}, .from = {}, .to = {}};
  greeting.from = reader.text();
  greeting.to = reader.text();
  return greeting;
}

}  // namespace

class Handshake::Impl {
 public:
  Impl(FileDescriptor socket, const Secret& secret, std::optional<Greeting> greeting, std::string own_name)
      : is_caller_(greeting.has_value()), socket_(std::move(socket)), secret_(secret), own_name_(std::move(own_name)) {
    if (greeting) {
      for (const std::string* name : {&greeting->purpose, &greeting->from, &greeting->to}) {
        if (name->size() > kLongestName)
          throw Error(ErrorCode::invalid_input, in_quotes(*name) + " is too long a name");
      }
      CHECK(greeting->payload.size() <= Greeting::kMaxPayload) << greeting->payload.size() << " bytes";
      greeting_ = *std::move(greeting);
      out_ = hello_version() + (secret_.is_empty() ? kPlain : kSecret);
      if (!secret_.is_empty()) {
        const std::string call = call_of(greeting_);
        tls_.emplace(call, secret_.key_for(call));
        out_ += tls_->said();
      }
    }
    expect(kVersionSize, &Impl::read_version);
  }

  State advance();
  int fd() const { return socket_.get(); }
  Admitted take() {
    CHECK(state_ == State::done);
    return {.socket = std::move(socket_), .keys = tls_ ? tls_->keys() : SessionKeys{}};
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
  bool has_hung_up() const;
  void refuse_garbage() { refuse(peer() + " sent something else than a greeting of banyan"); }
  void refuse_by_sign(char sign);
  // Without a secret: false when the peer is declined, as it is of another machine or user.
  bool is_peer_trusted();
  bool is_for_this(const Greeting& call) const {
    return call.purpose == kLookPurpose ? call.to == kLookPurpose : call.to == own_name_;
  }
  std::string whom(const Greeting& call) const { return in_quotes(call.to) + " (for '" + call.purpose + "')"; }

  void read_version();
  void read_mode();
  void read_answer();
  void read_record_head();
  void read_record();
  void look_at_tls();
  void read_plain_answer();
  void read_plain_size();
  void read_plain_greeting();
  // Throws Error{invalid_input}. The key of a call to this process.
  std::string key_of(std::string_view call);

  bool is_caller_;
  FileDescriptor socket_;
  Secret secret_;
  std::string own_name_;  // of a callee
  Greeting greeting_;
  std::optional<TlsSession> tls_;
  int records_ = 0;      // of TLS, that have come
  std::string payload_;  // by TLS, with its size in front
  std::string out_;      // not sent yet
  std::string in_;       // of what the next step wants
  size_t wanted_ = 0;
  Step step_ = nullptr;  // none: done when all is sent
  State state_ = State::wants_write;
  std::string refusal_;
  bool is_final_ = false;
};

std::string Handshake::Impl::peer() const {
  const std::optional<SocketAddress> address = SocketAddress::beyond(socket_.get());
  if (!address) return "the peer";
  const std::string ip = address->ip();
  if (ip.empty()) return "a process of this machine";
  return (ip.find(':') == std::string::npos ? ip : "[" + ip + "]") + ":" + std::to_string(address->port());
}

// Packets with a loopback address do not leave the machine; neither do those from an address to itself.
bool Handshake::Impl::peer_is_here() const {
  const std::optional<SocketAddress> own = SocketAddress::of(socket_.get()),
                                     other = SocketAddress::beyond(socket_.get());
  if (!own || !other) return false;
  return own->family() == AF_UNIX || is_loopback(other->ip()) || (!other->ip().empty() && other->ip() == own->ip());
}

bool Handshake::Impl::has_hung_up() const {
  pollfd polled{.fd = socket_.get(), .events = POLLRDHUP, .revents = 0};
  return poll(&polled, 1, 0) == 1;
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
      out_ = hello_version();
      send_some();
    }
    return refuse(peer() + " speaks banyan/" + std::to_string(*version) + ", this is banyan/" +
                  std::to_string(kVersion));
  }
  if (!is_caller_) out_ = hello_version();
  expect(1, is_caller_ ? &Impl::read_answer : &Impl::read_mode);
}

void Handshake::Impl::read_mode() {
  const char mode = in_[0];
  if (mode != kSecret && mode != kPlain) return refuse_garbage();
  if (!secret_.is_empty()) {
    if (mode == kPlain) return decline(kWantsSecret, peer() + " does not know the secret" + kMend);
    tls_.emplace([this](std::string_view call) { return key_of(call); });
    out_ += kYes;
    return expect(TlsSession::kHeadSize, &Impl::read_record_head);
  }
  if (!is_peer_trusted()) return;  // now, while an honest caller waits for the answer and cannot have gone
  if (mode == kSecret) return decline(kNoSecret, peer() + " has a secret, and this process has none" + kMend);
  out_ += kYes;
  expect(1, &Impl::read_plain_answer);
}

void Handshake::Impl::read_answer() {
  if (in_[0] != kYes) return refuse_by_sign(in_[0]);
  if (!secret_.is_empty()) return expect(TlsSession::kHeadSize, &Impl::read_record_head);
  if (!is_peer_trusted()) return;
  out_ += kYes;
  const std::string text = call_of(greeting_) + greeting_.payload;
  out_ += size_of(text) + text;
}

// What the peer's sign means: why it hangs up.
void Handshake::Impl::refuse_by_sign(char sign) {
  switch (sign) {
    case kWantsSecret:
      return refuse(peer() + " wants a secret, and this process has none" + kMend);
    case kNoSecret:
      return refuse(peer() + " has no secret, and this process has one" + kMend);
    case kNotHere:
      return refuse(peer() + " has no secret, and therefore trusts no other machine" + kMend);
    case kOtherUser:
      return refuse(peer() + " has no secret, and therefore trusts no process of another user" + kMend);
    default:
      return refuse_garbage();
  }
}

// ---- With a secret ----

std::string Handshake::Impl::key_of(std::string_view call) {
  WireReader reader(call);
  greeting_ = read_call(reader);
  reader.end();
  return is_for_this(greeting_) ? secret_.key_for(call) : "";
}

void Handshake::Impl::read_record_head() {
  const size_t size = TlsSession::size_after(in_);
  if (size == 0 || ++records_ > kMostRecords) return refuse_garbage();
  const std::string head = in_;
  expect(TlsSession::kHeadSize + size, &Impl::read_record);
  in_ = head;
}

void Handshake::Impl::read_record() {
  try {
    tls_->take(in_);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_input) throw;
    return refuse_garbage();  // a call that cannot be read
  }
  out_ += tls_->said();
  look_at_tls();
}

void Handshake::Impl::look_at_tls() {
  using Tls = TlsSession::State;
  const Tls state = tls_->state();
  if (state == Tls::shaking) return expect(TlsSession::kHeadSize, &Impl::read_record_head);
  if (state != Tls::done) send_some();  // why, in its own way
  if (state == Tls::strange) {
    return refuse(peer() + (is_caller_ ? " has another secret than this process" : " does not know the secret") +
                  kMend);
  }
  if (state == Tls::unknown) {
    return refuse(is_caller_ ? peer() + " is not " + whom(greeting_)
                             : peer() + " called " + whom(greeting_) + ", and this is " + in_quotes(own_name_));
  }
  if (state == Tls::broken) return refuse(peer() + " sent a greeting that was changed on its way");
  if (is_caller_) {
    tls_->send(size_of(greeting_.payload) + greeting_.payload);
    out_ += tls_->said();
    return;
  }
  payload_ += tls_->heard();
  if (payload_.size() < kSizeBytes || payload_.size() - kSizeBytes < size_in(payload_)) {
    return expect(TlsSession::kHeadSize, &Impl::read_record_head);
  }
  if (payload_.size() - kSizeBytes > size_in(payload_) || size_in(payload_) > Greeting::kMaxPayload)
    return refuse_garbage();
  greeting_.payload = payload_.substr(kSizeBytes);
}

// ---- Without one ----

bool Handshake::Impl::is_peer_trusted() {
  try {
    const bool is_here = peer_is_here();
    const std::optional<std::string> why = is_here ? stranger_at(socket_.get()) : std::nullopt;
    if (is_here && !why) return true;
    if (has_hung_up()) {  // the kernel knows nothing of it any more; it may answer when it is called again
      fail(peer() + " hung up during the greeting");
    } else if (!is_here) {
      decline(kNotHere, peer() + " is another machine, and without a secret only this one is trusted" + kMend);
    } else {
      decline(kOtherUser, peer() + " " + *why + kMend);
    }
  } catch (const Error& error) {  // it is not known who it is, and may be when it is asked again
    fail(peer() + " is hung up on: " + error.message());
  }
  return false;
}

void Handshake::Impl::read_plain_answer() {
  if (in_[0] != kYes) return refuse_by_sign(in_[0]);
  expect(kSizeBytes, &Impl::read_plain_size);
}

void Handshake::Impl::read_plain_size() {
  constexpr size_t kLongest = 3 * (sizeof(uint32_t) + kLongestName) + Greeting::kMaxPayload;
  const size_t size = size_in(in_);
  if (size > kLongest) {
    return refuse(peer() + " announced a greeting of " + std::to_string(size) + " bytes; at most " +
                  std::to_string(kLongest) + " are taken");
  }
  expect(size, &Impl::read_plain_greeting);
}

void Handshake::Impl::read_plain_greeting() {
  try {
    WireReader reader(in_);
    greeting_ = read_call(reader);
    greeting_.payload = in_.substr(call_of(greeting_).size());
  } catch (const Error&) {
    return refuse_garbage();
  }
  if (greeting_.payload.size() > Greeting::kMaxPayload) return refuse_garbage();
  if (!is_for_this(greeting_)) {
    refuse(peer() + " called " + whom(greeting_) + ", and this is " + in_quotes(own_name_));
  }
}

Handshake::Handshake(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Handshake::Handshake(Handshake&&) noexcept = default;
Handshake& Handshake::operator=(Handshake&&) noexcept = default;
Handshake::~Handshake() = default;

Handshake Handshake::caller(FileDescriptor socket, const Secret& secret, const Greeting& greeting) {
  return Handshake(std::make_unique<Impl>(std::move(socket), secret, greeting, std::string()));
}
Handshake Handshake::callee(FileDescriptor socket, const Secret& secret, std::string name) {
  return Handshake(std::make_unique<Impl>(std::move(socket), secret, std::nullopt, std::move(name)));
}

Handshake::State Handshake::advance() { return impl_->advance(); }
int Handshake::fd() const { return impl_->fd(); }
const Greeting& Handshake::greeting() const { return impl_->greeting(); }
Admitted Handshake::take() { return impl_->take(); }
const std::string& Handshake::refusal() const { return impl_->refusal(); }
bool Handshake::is_final() const { return impl_->is_final(); }

}  // namespace banyan::run
