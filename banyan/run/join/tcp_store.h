// TcpStore: a visitor of a StoreServer, over one connection at a time.
//
// A connection that breaks is no end of the host: the visitor calls again for up to kCallsAgain, and goes on where it
// was. Only then Error{peer_lost} says that rank 0 is gone.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "banyan/base/error.h"
#include "banyan/run/join/secret.h"
#include "banyan/run/join/socket_address.h"
#include "banyan/run/join/store.h"
#include "banyan/run/join/store_table.h"
#include "banyan/run/seal/seal.h"
#include "banyan/run/system/file_descriptor.h"

namespace banyan::run {

class TcpStore : public Store {
 public:
  struct Host {
    std::string place;  // "tcp://node7:29501", for messages
    std::string name;   // a host name or an address
    uint16_t port = 0;
    bool is_any_job = false;  // for who only looks at what is there
  };

  static constexpr std::chrono::milliseconds kCallsAgain{700};

  // Connects. The host may come later than its visitors: tries again until the deadline, and then throws
  // Error{timed_out}: "rank 0 has not come to tcp://node7:29501 within 30 s (10.1.2.3:29501: Connection refused)".
  // Throws Error{mismatch} at once if the process that answers is no store of ours, or has another secret.
  TcpStore(const Host& host, const Secret& secret, const std::string& job, const Deadline& deadline);
  // Says good-bye, since the host waits for a visitor that is cut off.
  ~TcpStore() override;

  void set(const std::string& key, const std::string& value, const Deadline& deadline) override;
  std::string get(const std::string& key, const Deadline& deadline) override;
  std::optional<std::string> try_get(const std::string& key, const Deadline& deadline) override;
  int64_t add(const std::string& key, int64_t delta, const Deadline& deadline) override;
  void leave_will(const LastWill& will, const Deadline& deadline) override;
  const std::string& place() const override { return host_.place; }
  std::string own_address() const override;

 private:
  struct Reply {
    uint32_t number = 0;
    StoreOutcome outcome = StoreOutcome::done;
    std::string value;
  };

  // One attempt at every address of the host. Says why when it has failed.
  std::optional<std::string> try_to_connect(const Deadline& deadline);
  std::optional<std::string> try_address(const SocketAddress& address, const Deadline& deadline);
  // Says its name. False when it is to be known `again`, and is not.
  bool introduce(bool again, const Deadline& deadline);
  // After the connection has broken, `why`. Throws when the host does not answer any more.
  void call_again(const Error& why, const Deadline& deadline);
  // `rest` follows the key, as the verb has it. Throws Error{invalid_input} with the host's words when the request has
  // failed.
  Reply ask(StoreVerb verb, const std::string& key, std::string_view rest, const Deadline& deadline);
  Reply converse(uint32_t number, std::string_view request, const Deadline& deadline);
  void send_all(std::string_view request, const Deadline& deadline);
  Reply receive(const Deadline& deadline);

  const Host host_;
  const Secret secret_;
  const std::string job_, name_;  // the latter is used once in the world
  FileDescriptor socket_;
  std::optional<StreamSealer> sealer_;
  std::optional<StreamOpener> opener_;
  FrameReader replies_;
  uint32_t last_number_ = 0;
  const pid_t owner_ = getpid();
};

}  // namespace banyan::run
