#include "banyan/service/operate/obedience.h"

#include <algorithm>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/service/operate/operator_commands.h"
#include "banyan/service/share/rules.h"

namespace banyan::service {
namespace {

bool only_looks(const std::string& command, const std::string& body) {
  if (command == "view" || command == "rules") return true;
  if (command != "load rules") return false;
  try {
    return read_rules_command(body).only_checks;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Obedience::Obedience(Parts parts) : parts_(std::move(parts)) {
  if (std::find(parts_.hosts.begin(), parts_.hosts.end(), "") != parts_.hosts.end()) {
    throw Error(ErrorCode::invalid_input, "names a host without a name", "--obey");
  }
}

std::optional<std::string> Obedience::refusal(const DaemonName& asking, const std::string& command,
                                              const std::string& body) const {
  if (only_looks(command, body)) return std::nullopt;
  if (asking.host == parts_.own && successors_.contains(asking.incarnation)) return std::nullopt;
  if (command == "replan alone" && parts_.may_replan_alone(asking.host)) return std::nullopt;
  const std::string name = parts_.name_of(asking.host);
  const bool is_named =
      asking.host != parts_.own && std::any_of(parts_.hosts.begin(), parts_.hosts.end(), [&](const std::string& each) {
        return each == asking.host || (!name.empty() && is_like(each, name));
      });
  if (is_named && parts_.is_where_its_card_says(asking)) return std::nullopt;
  if (is_named) {
    return "its daemon was called from an address that is not on the card of host " + in_quotes(name) +
           ", so that it may not be that one: ask there, or have that host's daemon begin without --address";
  }
  return "its daemon obeys its own operators, and no daemon of host " + in_quotes(name.empty() ? asking.host : name) +
         ": ask there, or start it with --obey " + (name.empty() ? "HOST" : name);
}

}  // namespace banyan::service
