#include "banyan/service/daemon/older_daemons.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/record/log.h"
#include "banyan/service/daemon/handed_sockets.h"
#include "banyan/service/daemon/succession.h"

namespace banyan::service {

void OlderDaemons::add(std::vector<ElderDaemon> daemons) {
  for (ElderDaemon& each : daemons) {
    // An older one says nothing any more: what can be read is its end.
    reactor_.watch(each.socket.get(), EPOLLIN,
                   [this, incarnation = each.daemon.incarnation](uint32_t) { note_end(incarnation); });
    daemons_.push_back(std::move(each));
  }
}

void OlderDaemons::clear() {
  for (const ElderDaemon& each : daemons_) reactor_.forget(each.socket.get());
  daemons_.clear();
}

void OlderDaemons::note_end(uint64_t incarnation) {
  const auto found = std::find_if(daemons_.begin(), daemons_.end(),
                                  [&](const ElderDaemon& each) { return each.daemon.incarnation == incarnation; });
  if (found == daemons_.end()) return;
  reactor_.forget(found->socket.get());
  daemons_.erase(found);
  ended_(incarnation);
}

std::vector<OlderDaemon> OlderDaemons::cards() const {
  std::vector<OlderDaemon> cards;
  for (const ElderDaemon& each : daemons_) cards.push_back(each.daemon);
  return cards;
}

std::vector<DaemonName> OlderDaemons::names(const std::string& host) const {
  std::vector<DaemonName> names;
  for (const ElderDaemon& each : daemons_) names.push_back({.host = host, .incarnation = each.daemon.incarnation});
  return names;
}

std::set<OpenSessions::Key> OlderDaemons::sessions() const {
  std::set<OpenSessions::Key> all;
  for (const ElderDaemon& each : daemons_) all.insert(each.sessions.begin(), each.sessions.end());
  return all;
}

std::vector<ElderDaemon> OlderDaemons::copies() const {
  std::vector<ElderDaemon> copies;
  for (const ElderDaemon& each : daemons_) {
    copies.push_back({.daemon = each.daemon, .sessions = each.sessions, .socket = copy_of(each.socket)});
  }
  return copies;
}

void OlderDaemons::tell(const HostCard& newest) const {
  for (const ElderDaemon& each : daemons_) {
    try {
      tell_of_newest(each.socket.get(), newest);
    } catch (const Error& error) {
      BANYAN_LOG(info) << "an older daemon of this host is not told who serves now: " << error.what();
    }
  }
}

}  // namespace banyan::service
