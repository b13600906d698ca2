// A connection of TLS records over memory, to be measured beside sealed frames: what SealedConnection would be if it
// left framing, nonces and keys to libssl. Not a part of the library: see docs/performance.md for what came of it.
#pragma once

#include <openssl/ssl.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/transport/tcp_connection.h"

namespace banyan::run {

class TlsConnection final : public Connection {
 public:
  TlsConnection(uint32_t rank, std::unique_ptr<TcpConnection> inner) : inner_(std::move(inner)) {
    BIO* own = nullptr;
    if (BIO_new_bio_pair(&own, kBuffer, &far_, kBuffer) != 1) throw Error(ErrorCode::io, "no BIO pair");
    ssl_.reset(SSL_new(context(rank == 0)));
    SSL_set_bio(ssl_.get(), own, own);
    rank == 0 ? SSL_set_connect_state(ssl_.get()) : SSL_set_accept_state(ssl_.get());
  }
  ~TlsConnection() override { BIO_free(far_); }

  // False until both have shaken hands.
  bool shake_hands() {
    const int result = SSL_do_handshake(ssl_.get());
    flush();
    fill();
    if (result <= 0 && SSL_get_error(ssl_.get(), result) != SSL_ERROR_WANT_READ) throw Error(ErrorCode::io, "no TLS");
    return result == 1 && BIO_ctrl_pending(far_) == 0;
  }

  size_t write(std::span<const std::byte> head, std::span<const std::byte> body) override {
    size_t taken = 0;
    for (const std::span<const std::byte> part : {head, body}) {
      for (size_t at = 0; at < part.size();) {
        if (!flush() && BIO_ctrl_pending(far_) + kRecord > kBuffer) return taken;
        size_t count = 0;
        const size_t piece = std::min<size_t>(part.size() - at, SSL3_RT_MAX_PLAIN_LENGTH);
        if (SSL_write_ex(ssl_.get(), part.data() + at, piece, &count) != 1) return taken;
        at += count;
        taken += count;
      }
    }
    flush();
    return taken;
  }
  size_t read(std::span<std::byte> into) override {
    size_t done = 0;
    while (done < into.size()) {
      size_t count = 0;
      if (SSL_read_ex(ssl_.get(), into.data() + done, into.size() - done, &count) == 1) {
        done += count;
      } else if (SSL_get_error(ssl_.get(), 0) != SSL_ERROR_WANT_READ) {
        throw Error(ErrorCode::io, "bytes were changed on their way");
      } else if (done > 0 || !fill()) {
        break;
      }
    }
    return done;
  }
  std::span<const std::byte> peek() override { return {}; }
  void consume(size_t) override {}
  int fd() const override { return inner_->fd(); }
  short before_sleep() override {
    flush();
    return inner_->before_sleep();
  }
  void after_sleep() override { inner_->after_sleep(); }
  bool uses_links() const override { return true; }
  bool has_unsent() override { return !flush(); }

 private:
  static constexpr size_t kBuffer = size_t{160} << 10, kRecord = SSL3_RT_MAX_PLAIN_LENGTH + 256;
  static constexpr const char* kKey = "0123456789abcdef0123456789abcdef";

  static SSL_SESSION* session_of(SSL* ssl) {
    static const unsigned char kSuite[] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256
    SSL_SESSION* const session = SSL_SESSION_new();
    SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(kKey), 32);
    SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kSuite));
    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION);
    return session;
  }
  static SSL_CTX* context(bool calls) {
    SSL_CTX* const made = SSL_CTX_new(calls ? TLS_client_method() : TLS_server_method());
    SSL_CTX_set_min_proto_version(made, TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(made, "TLS_AES_128_GCM_SHA256");
    SSL_CTX_set_num_tickets(made, 0);
    SSL_CTX_set_mode(made, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_psk_use_session_callback(
        made, [](SSL* ssl, const EVP_MD*, const unsigned char** id, size_t* size, SSL_SESSION** session) {
          *id = reinterpret_cast<const unsigned char*>("bench");
          *size = 5;
          *session = session_of(ssl);
          return 1;
        });
    SSL_CTX_set_psk_find_session_callback(made, [](SSL* ssl, const unsigned char*, size_t, SSL_SESSION** session) {
      *session = session_of(ssl);
      return 1;
    });
    return made;
  }

  // Whether all records are on their way.
  bool flush() {
    char* bytes = nullptr;
    for (int count; (count = BIO_nread0(far_, &bytes)) > 0;) {
      const size_t sent = inner_->write(std::as_bytes(std::span(bytes, static_cast<size_t>(count))), {});
      if (sent == 0) return false;
      BIO_nread(far_, &bytes, static_cast<int>(sent));
    }
    return true;
  }
  // Whether bytes came.
  bool fill() {
    char* room = nullptr;
    const int size = BIO_nwrite0(far_, &room);
    if (size <= 0) return false;
    const size_t count = inner_->read(std::as_writable_bytes(std::span(room, static_cast<size_t>(size))));
    if (count > 0) BIO_nwrite(far_, &room, static_cast<int>(count));
    return count > 0;
  }

  const std::unique_ptr<TcpConnection> inner_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, SSL_free};
  BIO* far_ = nullptr;
};

}  // namespace banyan::run
