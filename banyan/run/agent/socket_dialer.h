// SocketDialer and SocketStream: ByteStreams between agents over TCP, shaken hands with. The dialer's are sealed
// (seal/sealed_stream.h); who adopts a call does the same to a SocketStream.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "banyan/run/join/outgoing_connects.h"
#include "banyan/run/system/byte_stream.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/reactor.h"

namespace banyan::run {

// On the reactor's thread.
class SocketStream final : public ByteStream {
 public:
  // The peer's host is given up when it has acknowledged nothing for `lost_after`; 0: never, for connections within a
  // host. Throws Error{io}: it was reset.
  SocketStream(Reactor& reactor, FileDescriptor socket, std::chrono::milliseconds lost_after);
  ~SocketStream() override;

  void watch(Ready ready) override;
  void await_room(bool on) override;
  size_t send(std::string_view bytes) override;
  Received receive(std::span<char> buffer) override;

 private:
  Reactor& reactor_;
  const FileDescriptor socket_;
  const std::chrono::milliseconds lost_after_;
  int broken_by_ = 0;  // an error that send() met; the kernel tells it once, and then calls the stream closed
};

class SocketDialer final : public Dialer {
 public:
  struct Peer {
    ConnectTarget target;
    Greeting greeting;
  };
  // A path for each address of a peer.
  SocketDialer(Reactor& reactor, OutgoingConnects& calls, std::chrono::milliseconds lost_after, std::vector<Peer> peers)
      : reactor_(reactor), connects_(calls), lost_after_(lost_after), peers_(std::move(peers)) {
    learned_.resize(peers_.size());
  }

  // One more path, by which data goes. Known ones are ignored, and those that become too many.
  void learn(uint32_t peer, const std::string& local_address, const std::string& peer_address);

  uint32_t paths(uint32_t peer) const override;
  uint64_t dial(uint32_t peer, uint32_t path, Done done) override;
  void cancel(uint64_t call) override { connects_.cancel(call); }

 private:
  Reactor& reactor_;
  OutgoingConnects& connects_;
  const std::chrono::milliseconds lost_after_;
  const std::vector<Peer> peers_;
  std::vector<std::vector<ConnectTarget>> learned_;  // by peer
};

}  // namespace banyan::run
