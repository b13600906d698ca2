#include "banyan/run/agent/lane_connector.h"

#include <unistd.h>

#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/record/log.h"

namespace banyan::run {

LaneConnector::LaneConnector(std::shared_ptr<Mailbox> mailbox, TransportConnections& connections, ConnectionGroup group)
    : pid_(getpid()),
      mailbox_(std::move(mailbox)),
      connections_(connections),
      communicator_(group.communicator),
      size_(group.members.size()),
      answers_(std::make_shared<AnswerQueue>()) {
  mailbox_->post([&connections, group = std::move(group), answers = answers_] { connections.open(group, answers); });
}

LaneConnector::~LaneConnector() {
  // A fork may have copied the mailbox while it was locked.
  if (getpid() != pid_) return;
  try {
    mailbox_->post([&connections = connections_, communicator = communicator_] { connections.close(communicator); });
  } catch (...) {
    BANYAN_LOG(warning) << "connections stay open until the process leaves: " << current_error().what();
  }
}

void LaneConnector::request(uint32_t peer, uint32_t lane, const Path& path) {
  CHECK(peer < size_) << "peer=" << peer << " of " << size_;
  if (getpid() != pid_) throw Error(ErrorCode::unsupported, "a forked process cannot use its parent's connections");
  const bool is_posted = mailbox_->post([&connections = connections_, communicator = communicator_, peer, lane, path] {
    connections.request(communicator, peer, lane, path);
  });
  if (is_posted) return;
  answers_->put({.peer = peer,
                 .lane = lane,
                 .failure = Error(ErrorCode::peer_lost, "this process has left the world of the communicator")});
}

void LaneConnector::know(uint32_t peer, const Path& path) {
  CHECK(peer < size_) << "peer=" << peer << " of " << size_;
  if (getpid() != pid_) return;
  mailbox_->post([&connections = connections_, communicator = communicator_, peer, path] {
    connections.know(communicator, peer, path);
  });
}

}  // namespace banyan::run
