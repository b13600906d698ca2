// OperatorDoor: asks a daemon of the service, as banyan/service/operate/operator_api.h describes, and tells apart what
// it answers.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/report.h"
#include "banyan/base/error.h"
#include "banyan/service/view/host_view.h"

namespace banyan::app {

// The answers of all hosts to a wish, each for itself.
struct OperatorAnswers {
  struct Host {
    std::string name = {};
    std::string error = {};  // empty: it has done it
    Json said = {};          // the whole of its answer
  };
  std::vector<Host> hosts;
  std::vector<service::UnreachableHost> unreachable;
  Json all;  // as the daemon has sent it

  bool is_good() const;  // all have done it, and none is unreachable
};

class OperatorDoor {
 public:
  // A daemon gives up on other hosts sooner than this.
  static constexpr std::chrono::seconds kPatience{20};

  // "unix:/run/banyan/operator.sock", "http://127.0.0.1:9420"; empty: the daemon of this host, or of this user.
  explicit OperatorDoor(std::string url, std::chrono::milliseconds patience = kPatience);

  const std::string& url() const { return url_; }

  // All of them throw what http_ask throws; the refusals of the daemon, in its words; and Error{invalid_input}, which
  // names the url, for an answer that no daemon gives.
  std::string cluster_text() const;  // JSON of a ClusterView
  service::ClusterView cluster() const;
  Json get(const std::string& target) const;
  OperatorAnswers post(const std::string& target, const Json& body) const;
  // Returns read(), which parses an answer; its errors get the name of the daemon.
  template <typename Read>
  auto understood(Read read) const {
    try {
      return read();
    } catch (const Error& error) {
      throw Error(error.code(), error.what(), url_ + " (is it banyand of this version?)");
    }
  }

 private:
  std::string ask(const std::string& method, const std::string& target, const std::string& body) const;

  std::string url_;
  std::chrono::milliseconds patience_;
};

}  // namespace banyan::app
