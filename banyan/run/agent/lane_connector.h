// LaneConnector: the transport's side of TransportConnections, which live on the thread of a reactor.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "banyan/run/agent/transport_connections.h"
#include "banyan/run/system/reactor.h"
#include "banyan/run/transport/connector.h"

namespace banyan::run {

class LaneConnector : public Connector {
 public:
  // Opens the group, and closes it at the end. `connections` outlives what is posted to the reactor of the mailbox.
  LaneConnector(std::shared_ptr<Mailbox> mailbox, TransportConnections& connections, ConnectionGroup group);
  ~LaneConnector() override;

  // Throws Error{unsupported} in a forked process.
  void request(uint32_t peer, uint32_t lane, const Path& path) override;
  void know(uint32_t peer, const Path& path) override;
  std::vector<Answer> take() override { return answers_->take(); }
  int event_fd() const override { return answers_->event_fd(); }

 private:
  const pid_t pid_;
  const std::shared_ptr<Mailbox> mailbox_;  // shared with the reactor
  TransportConnections& connections_;       // used on the reactor's thread only, so not when there is none
  const uint64_t communicator_;
  const size_t size_;
  const std::shared_ptr<AnswerQueue> answers_;  // shared with TransportConnections
};

}  // namespace banyan::run
