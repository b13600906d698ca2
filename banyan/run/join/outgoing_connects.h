// OutgoingConnects: connections to listeners of peers, made without waiting for them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "banyan/run/join/handshake.h"
#include "banyan/run/join/secret.h"
#include "banyan/run/system/alarm.h"
#include "banyan/run/system/reactor.h"

namespace banyan::run {

struct ConnectTarget {
  std::vector<std::string> addresses;  // tried one after the other
  uint16_t port = 0;
  std::string local_address{};  // empty: the kernel chooses
  std::string name;             // that the process there is called by (handshake.h); it takes no calls to others
};

// On the reactor's thread.
class OutgoingConnects {
 public:
  struct Outcome {
    FileDescriptor socket{};  // connected, greeted, not watched; closed when the call has failed
    SessionKeys keys = {};
    std::string failure{};        // then why
    bool nobody_listens = false;  // every address answered that the port is closed
    // A host has taken the call, and nothing came from the process until the time was over.
    bool somebody_listens = false;
    bool is_short = false;  // this process has too few descriptors, or too little memory, to call anybody
  };
  using Done = std::function<void(Outcome)>;

  // A host that is there takes a call within milliseconds, and where packets are lost a new call is sooner than the
  // kernel's third try.
  static constexpr std::chrono::milliseconds kConnectTime{1500};
  // `name`: of this process (handshake.h). Each address is given `time_each` to shake hands, and not more than
  // kConnectTime to connect. `dscp`: the code point of all packets (system/ds_field.h); none: they are as they come.
  OutgoingConnects(Reactor& reactor, Secret secret, std::string name, std::chrono::milliseconds time_each,
                   std::optional<uint8_t> dscp = {})
      : reactor_(reactor), secret_(std::move(secret)), name_(std::move(name)), time_each_(time_each), dscp_(dscp) {}
  ~OutgoingConnects();
  OutgoingConnects(const OutgoingConnects&) = delete;
  OutgoingConnects& operator=(const OutgoingConnects&) = delete;

  // Tries every address once, then calls `done`, never before it returns. The number is for cancel().
  uint64_t connect(ConnectTarget target, Greeting greeting, Done done);
  // `done` is not called then. Past and unknown ones are ignored.
  void cancel(uint64_t call);

 private:
  struct Attempt {
    ConnectTarget target;
    Greeting greeting;
    Done done;
    size_t next = 0;     // address to try
    size_t refused = 0;  // addresses at which nobody listens
    bool was_taken = false, is_short = false;
    std::string failure;
    FileDescriptor connecting;
    std::unique_ptr<Handshake> handshake;
    Alarm timer;
  };
  void try_next(uint64_t number);
  void give_time(uint64_t number, std::chrono::milliseconds time);
  void connected(uint64_t number);
  void advance(uint64_t number);
  void attempt_failed(uint64_t number, const std::string& why);  // of the address that is tried
  void give_up_address(uint64_t number, std::string failure);
  void drop_socket(Attempt& call);
  void finish(uint64_t number, Outcome outcome);

  Reactor& reactor_;
  Secret secret_;
  std::string name_;
  std::chrono::milliseconds time_each_;
  std::optional<uint8_t> dscp_;
  std::unordered_map<uint64_t, Attempt> attempts_;
  uint64_t next_number_ = 0;
};

}  // namespace banyan::run
