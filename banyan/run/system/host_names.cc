#include "banyan/run/system/host_names.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

char lower(char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter; }

std::string in_lower_case(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

bool is_of_a_name(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '-' || letter == '_' ||
         letter == '.';
}

bool is_address(const std::string& text) {
  in_addr four;
  in6_addr six;
  return inet_pton(AF_INET, text.c_str(), &four) == 1 || inet_pton(AF_INET6, text.c_str(), &six) == 1;
}

// Without its port; an address of IPv6 also without its brackets.
std::string_view name_in(std::string_view host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

}  // namespace

void HostNames::add(const std::string& name) {
  std::string known = in_lower_case(name);
  if (known.empty() || known == "." || !std::all_of(known.begin(), known.end(), is_of_a_name)) {
    throw invalid(in_quotes(name) +
                  " is no name of a host; give one such as node3.cluster, or .cluster for all that end so");
  }
  names_.push_back(std::move(known));
}

bool HostNames::has(std::string_view host) const {
  std::string name = in_lower_case(name_in(host));
  if (name.ends_with('.')) name.pop_back();
  if (is_address(name)) return true;
  return std::any_of(names_.begin(), names_.end(), [&](const std::string& known) {
    if (!known.starts_with('.')) return name == known;
    return name.ends_with(known) || name == known.substr(1);
  });
}

void HostNames::add_own() {
  const std::string whole = host_name();
  for (const std::string& each : {whole, whole.substr(0, whole.find('.'))}) {
    try {
      add(each);
    } catch (const Error&) {  // no browser says it
    }
  }
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) throw system_error("this machine has no name");
  return name.data();
}

std::string host_name_or(const char* otherwise) {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : otherwise;
}

std::string misdirected(std::string_view host, const std::string& mend) {
  const std::string name(name_in(host));
  return "this host is not known to be called " + in_quotes(name) + "; ask by its address, or " + mend + " " + name;
}

}  // namespace banyan::run
