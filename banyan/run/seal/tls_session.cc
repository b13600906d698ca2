#include "banyan/run/seal/tls_session.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <atomic>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/seal/primitives.h"
#include "banyan/run/seal/seal.h"

namespace banyan::run {
namespace {

constexpr const char* kSuite = "TLS_AES_128_GCM_SHA256";
constexpr std::array<unsigned char, 2> kSuiteNumber{0x13, 0x01};
constexpr const char* kGroup = "P-256";  // which FIPS modules have, too
constexpr std::string_view kLabel = "EXPORTER-banyan-frames";

void demand(bool has_worked, const char* what) { demand_of_libcrypto(has_worked, what); }

struct FreeSession {
  void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};

// What a key from outside is to libssl. Null when memory is short.
SSL_SESSION* session_of(SSL* ssl, const std::string& key) {
  std::unique_ptr<SSL_SESSION, FreeSession> made(SSL_SESSION_new());
  const SSL_CIPHER* const suite = SSL_CIPHER_find(ssl, kSuiteNumber.data());
  const auto* const bytes = reinterpret_cast<const unsigned char*>(key.data());
  const bool is_made = made && suite != nullptr && SSL_SESSION_set1_master_key(made.get(), bytes, key.size()) == 1 &&
                       SSL_SESSION_set_cipher(made.get(), suite) == 1 &&
                       SSL_SESSION_set_protocol_version(made.get(), TLS1_3_VERSION) == 1;
  return is_made ? made.release() : nullptr;
}

}  // namespace

struct TlsSession::Of {
  static TlsSession& whose(SSL* ssl) { return *static_cast<TlsSession*>(SSL_get_app_data(ssl)); }

  static int use_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* size, SSL_SESSION** session) {
    const TlsSession& own = whose(ssl);
    *identity = reinterpret_cast<const unsigned char*>(own.identity_.data());
    *size = own.identity_.size();
    *session = session_of(ssl, own.key_);
    return *session == nullptr ? 0 : 1;
  }
  // Without a session libssl goes on to a handshake with certificates, of which there are none.
  static int find_key(SSL* ssl, const unsigned char* identity, size_t size, SSL_SESSION** session) {
    TlsSession& own = whose(ssl);
    *session = nullptr;
    try {
      own.key_ = own.find_({reinterpret_cast<const char*>(identity), size});
      own.was_refused_ = own.key_.empty();
      if (!own.was_refused_) *session = session_of(ssl, own.key_);
    } catch (...) {
      own.failure_ = std::current_exception();
    }
    return 1;
  }

  // What a site's openssl.cnf says of TLS does not reach this.
  static SSL_CTX* make_context() {
    struct FreeContext {
      void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
    };
    std::unique_ptr<SSL_CTX, FreeContext> made(SSL_CTX_new(TLS_method()));
    demand(made != nullptr, "prepare TLS");
    SSL_CTX* const context = made.get();
    demand(SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
               SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
               SSL_CTX_set_ciphersuites(context, kSuite) == 1 && SSL_CTX_set1_groups_list(context, kGroup) == 1 &&
               SSL_CTX_set_num_tickets(context, 0) == 1 && SSL_CTX_set_max_early_data(context, 0) == 1,
           "choose what TLS may do");
    SSL_CTX_clear_options(context, SSL_OP_ENABLE_MIDDLEBOX_COMPAT | SSL_OP_ALLOW_NO_DHE_KEX);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_keylog_callback(context, nullptr);
    SSL_CTX_set_psk_use_session_callback(context, use_key);
    SSL_CTX_set_psk_find_session_callback(context, find_key);
    return made.release();
  }
  // One for the process, for all threads. Without a lock, which a fork might copy while it is held.
  static SSL_CTX* context() {
    static std::atomic<SSL_CTX*> shared{nullptr};
    SSL_CTX* known = shared.load(std::memory_order_acquire);  // with all that make_context() has written
    if (known != nullptr) return known;
    SSL_CTX* const made = make_context();
    if (shared.compare_exchange_strong(known, made, std::memory_order_acq_rel)) return made;
    SSL_CTX_free(made);
    return known;
  }
};

void TlsSession::Free::operator()(ssl_st* ssl) const { SSL_free(ssl); }

TlsSession::TlsSession(const std::string& identity, const std::string& key) : identity_(identity), key_(key) {
  CHECK_EQ(key.size(), kKeySize);
  begin();
  SSL_set_connect_state(ssl_.get());
  SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER, nullptr);  // a callee with a certificate is none of ours
  go_on();
  demand(state_ == State::shaking, "begin TLS");  // nobody else has said anything yet
}

TlsSession::TlsSession(Find find) : find_(std::move(find)) {
  begin();
  SSL_set_accept_state(ssl_.get());
}

TlsSession::~TlsSession() { wipe(key_.data(), key_.size()); }

void TlsSession::begin() {
  ssl_.reset(SSL_new(Of::context()));
  demand(ssl_ != nullptr, "begin TLS");
  SSL_set0_rbio(ssl_.get(), BIO_new(BIO_s_mem()));
  SSL_set0_wbio(ssl_.get(), BIO_new(BIO_s_mem()));
  demand(SSL_get_rbio(ssl_.get()) != nullptr && SSL_get_wbio(ssl_.get()) != nullptr &&
             SSL_set_app_data(ssl_.get(), this) == 1,
         "begin TLS");
}

// Of any kind of record. A caller's first one calls itself 3.1, all others 3.3.
size_t TlsSession::size_after(std::string_view head) {
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(head[i])); };
  constexpr size_t kLongest = SSL3_RT_MAX_PLAIN_LENGTH + 256;  // RFC 8446, section 5.2
  const size_t size = byte(3) << 8 | byte(4);
  const bool is_record = byte(0) >= SSL3_RT_CHANGE_CIPHER_SPEC && byte(0) <= SSL3_RT_APPLICATION_DATA && byte(1) == 3 &&
                         (byte(2) == 1 || byte(2) == 3) && size <= kLongest;
  return is_record ? size : 0;
}

void TlsSession::take(std::string_view record) {
  CHECK(state_ == State::shaking || state_ == State::done);
  const auto size = static_cast<int>(record.size());
  demand(BIO_write(SSL_get_rbio(ssl_.get()), record.data(), size) == size, "take a record of TLS");
  go_on();
}

std::string TlsSession::said() {
  BIO* const out = SSL_get_wbio(ssl_.get());
  std::string bytes(BIO_ctrl_pending(out), '\0');
  const auto size = static_cast<int>(bytes.size());
  demand(size == 0 || BIO_read(out, bytes.data(), size) == size, "take what TLS says");
  return bytes;
}

void TlsSession::send(std::string_view text) {
  CHECK(state_ == State::done);
  size_t count = 0;
  demand(SSL_write_ex(ssl_.get(), text.data(), text.size(), &count) == 1 && count == text.size(), "send by TLS");
}

SessionKeys TlsSession::keys() const {
  CHECK(state_ == State::done);
  std::string drawn(2 * kSessionKeySize, '\0');
  demand(SSL_export_keying_material(ssl_.get(), reinterpret_cast<unsigned char*>(drawn.data()), drawn.size(),
                                    kLabel.data(), kLabel.size(), nullptr, 0, 0) == 1,
         "draw keys from TLS");
  SessionKeys keys{.sending = drawn.substr(0, kSessionKeySize), .receiving = drawn.substr(kSessionKeySize)};
  if (find_) std::swap(keys.sending, keys.receiving);
  wipe(drawn.data(), drawn.size());
  return keys;
}

void TlsSession::go_on() {
  ERR_clear_error();
  if (state_ == State::shaking) {
    const int result = SSL_do_handshake(ssl_.get());
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    if (result != 1) return look_at_error(result);
    // Without the key nothing is believed, whatever else libssl might have agreed to.
    state_ = SSL_session_reused(ssl_.get()) == 1 ? State::done : State::broken;
  }
  while (state_ == State::done) {
    std::array<char, 4096> buffer;
    size_t count = 0;
    const int result = SSL_read_ex(ssl_.get(), buffer.data(), buffer.size(), &count);
    if (result != 1) return look_at_error(result);
    heard_.append(buffer.data(), count);
  }
}

void TlsSession::look_at_error(int result) {
  if (SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ) return;
  state_ = was_refused_ ? State::unknown : State::broken;
  const unsigned long first = ERR_get_error();
  for (unsigned long each = first; each != 0; each = ERR_get_error()) {
    if (ERR_GET_REASON(each) == ERR_R_MALLOC_FAILURE) throw Error(ErrorCode::io, "memory is short for TLS");
  }
  if (ERR_GET_LIB(first) != ERR_LIB_SSL) return;
  const int reason = ERR_GET_REASON(first);
  // The alerts are how the callee says so.
  if (reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE) state_ = State::unknown;
  if (reason == SSL_R_BINDER_DOES_NOT_VERIFY || reason == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER ||
      reason == SSL_R_TLSV1_ALERT_DECRYPT_ERROR) {
    state_ = State::strange;
  }
}

}  // namespace banyan::run
