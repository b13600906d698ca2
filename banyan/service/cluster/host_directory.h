// HostDirectory: where the daemons of a cluster find each other.
//
// Each daemon publishes a card of itself and looks others up when a communicator needs them; nobody has to come first,
// and a daemon that has come back replaces its card. Daemons that have a secret sign their cards by it: somebody who
// may write to the directory can hide hosts, bring an old card back, and no more. A card that cannot be read or has no
// such signature, since it is of another version or of an enemy, is one host that cannot be reached. A card alone is
// not believed either: whoever answers at its address has to know the secret.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/join/secret.h"
#include "banyan/service/protocol/wire_fields.h"

namespace banyan::service {

// A daemon that another one of its host has taken the place of. It carries the sessions that it has to their end.
struct OlderDaemon {
  uint64_t incarnation = 0;
  std::vector<std::string> addresses;
  uint16_t port = 0;
};
template <>
inline constexpr auto kWireFields<OlderDaemon> =
    std::tuple{&OlderDaemon::incarnation, &OlderDaemon::port, &OlderDaemon::addresses};

struct HostCard {
  // The version of the texts by which sessions of one communicator agree on plans (run/execute/revision.h,
  // plan_switch.h). Sessions of two versions would wait for each other for ever, or, before 3, take a call that is over
  // at one rank for over at all. So no communicator is opened over both.
  static constexpr uint32_t kTexts = 3;
  // The version of the card itself. A text that does not begin with it is not read further.
  static constexpr const char* kVersion = "banyan card/2";

  std::string host;          // by which daemons and their clients know it; in a cluster once
  uint64_t incarnation = 0;  // of the daemon: another one each time that it begins
  std::string name;          // for people
  std::string node = {};     // that this host is in the fabric of the cluster
  std::vector<std::string> addresses;
  uint16_t port = 0;
  std::vector<OlderDaemon> older = {};  // that have sessions still: one, or of version 0.2 some, the last one first
  uint32_t texts = kTexts;              // of the newest daemon

  // Each daemon of the host, as if it were alone: this one first.
  std::vector<HostCard> daemons() const;
  bool has(uint64_t daemon) const;

  std::string encode() const;
  // Throws Error{invalid_input}.
  static HostCard decode(const std::string& text);
  // Leaves what is behind it. Throws the same.
  static HostCard read(run::WireReader& reader);
};

// As it stands in directories: with a signature where there is a secret.
std::string signed_card(const HostCard& card, const run::Secret& secret);
// Throws Error{invalid_input} for what is no card of this host, or is not signed by the secret.
HostCard checked_card(const std::string& text, const std::string& host, const run::Secret& secret);

// All that there are.
struct HostCards {
  std::vector<HostCard> cards;                // in ascending order of the hosts
  std::map<std::string, std::string> unread;  // why that of a host cannot be read
};

// One thread at a time.
class HostDirectory {
 public:
  HostDirectory() = default;
  HostDirectory(const HostDirectory&) = delete;
  HostDirectory& operator=(const HostDirectory&) = delete;
  virtual ~HostDirectory() = default;

  // All throw Error{io}.
  virtual void publish(const HostCard& card) = 0;
  // The card that was published belongs to another daemon now, which keeps it.
  virtual void leave() {}
  // Throws Error{invalid_input} for a card that cannot be read, or is another host's.
  virtual std::optional<HostCard> find(const std::string& host) = 0;
  // The cards of all hosts whose daemons have come; some may be gone again. O(hosts).
  virtual HostCards cards() = 0;

  // "file:///folder", which all daemons share; "etcd://HOST:PORT[,HOST:PORT...]/PREFIX" (etcd_directory.h). Empty: of
  // one host alone. Asks and makes nothing yet: what is not there may come. Throws Error{invalid_input}, also for a
  // folder that strangers could write to, Error{io}; Error{unsupported} for etcd in a build without libcurl.
  static std::unique_ptr<HostDirectory> at(const std::string& url, const run::Secret& secret = {});
};

}  // namespace banyan::service
