// HostNames: the names by which clients may call a server, in their Host header (RFC 9110, 7.2).
//
// The page of a stranger, in a browser that reaches this server, could otherwise read all that it says: the stranger
// has the name of the page stand for the server's address meanwhile ("DNS rebinding"), and for the browser both are
// one. But the browser still says that name. So only names that no stranger can have are answered: addresses,
// "localhost", and those that were added. A client that says none is no browser.
//
// Any thread; an object is one thread's at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace banyan::run {

class HostNames {
 public:
  // "node3.cluster", or ".cluster" for that and all names that end so. Upper and lower case are the same. Throws
  // Error{invalid_input}.
  void add(const std::string& name);
  // As the system calls this host, whole and up to the first dot, if these are such names. Throws Error{io}.
  void add_own();
  // `host`: a name or an address, maybe with a port, as the header has it.
  bool has(std::string_view host) const;

 private:
  std::vector<std::string> names_ = {"localhost"};  // in lower case
};

// The name of this machine. Throws Error{io}.
std::string host_name();
// The same, and `otherwise` if the system does not say it.
std::string host_name_or(const char* otherwise);

// The status of an answer to a client that means another host ("Misdirected Request"), and its words: "ask by its
// address, or `mend` evil.example".
constexpr int kMisdirected = 421;
std::string misdirected(std::string_view host, const std::string& mend);

}  // namespace banyan::run
