// EtcdDirectory: the cards of hosts in etcd (3.4 or later), which daemons ask by its JSON gateway.
//
//   EtcdDirectory directory(EtcdPlace::parse("etcd://node1:2379,node2:2379/banyan"), {});
//   directory.publish(card);   // under /banyan/hosts/<name of the host in hexadecimal>
//
// A card is bound to a lease, which a thread keeps alive every third of its time. So the card goes when its owner ends
// (at once) or dies (when the lease runs out). If etcd has lost the lease, since it was started anew or could not be
// reached for too long, the thread publishes the card again.
//
// A caller of find() waits for the answer for a second at most, and one of cards() as long for each page. After a
// question that no endpoint has answered, further ones fail at once, for four times as long as that one took and until
// the thread has heard etcd again. So a daemon stands still once when etcd goes away, however often it asks, and one
// that has no card there for a fifth of its time at most.
//
// Answers of etcd are read as those of a stranger. An endpoint that answers nonsense is passed over like a dead one;
// the endpoint that answered last is asked first.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/service/cluster/host_directory.h"

namespace banyan::service {

// "etcd://HOST:PORT[,HOST:PORT...]/PREFIX", or etcds:// for https. IPv6 stands in brackets.
struct EtcdPlace {
  std::vector<std::string> endpoints;  // "http://node1:2379"; 1 to 16
  std::string prefix;                  // "/banyan"

  // Throws Error{invalid_input}.
  static EtcdPlace parse(const std::string& url);
  std::string key_of(const std::string& host) const;
  // The range of the keys of all hosts: the first that could be, and the one behind the last.
  std::pair<std::string, std::string> range() const;
};

class EtcdDirectory : public HostDirectory {
 public:
  // Files in the PEM format, for etcds://. Empty: the certificates that the system trusts; no certificate of our own.
  struct Tls {
    std::string ca = {}, certificate = {}, key = {};
    // ETCDCTL_CACERT, ETCDCTL_CERT and ETCDCTL_KEY, as etcdctl reads them.
    static Tls from_environment();
    // Throws Error{invalid_input} that names the variable of a file that is missing, is nothing of the kind, does not
    // go with the other one, or has expired.
    void expect_usable() const;
  };
  struct Options {
    std::chrono::seconds ttl{10};               // of the lease
    std::chrono::milliseconds patience{3'000};  // for one question to all endpoints together
    std::chrono::milliseconds reading{1'000};   // the same of find(), and of each page of cards(), if less
    Tls tls = {};
    run::Secret secret = {};  // that signs cards
  };

  // Asks nothing yet. Throws Error{io} when libcurl cannot be set up.
  EtcdDirectory(EtcdPlace place, Options options);
  // Takes its card out; waits at most as long as its patience lasts.
  ~EtcdDirectory() override;

  // All throw Error{io}, which names the endpoints, when none answers. If a publication fails after another has
  // succeeded, the thread puts the former card back.
  void publish(const HostCard& card) override;
  void leave() override;
  std::optional<HostCard> find(const std::string& host) override;
  HostCards cards() override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// RFC 4648, with padding, as the gateway has it. from_base64 throws Error{invalid_input}, also where it could have been
// written in another way.
std::string to_base64(std::string_view bytes);
std::string from_base64(std::string_view text);

}  // namespace banyan::service
