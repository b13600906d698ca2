// Network namespaces of this machine, as `ip netns` names them.
#pragma once

#include <string>

#include "banyan/run/system/file_descriptor.h"

namespace banyan::lab {

// While it lives, the calling thread is in the network namespace: sockets that it makes belong there, and stay there.
// Throws Error{not_found} when there is none of this name, Error{io} when it may not be entered.
class InNamespace {
 public:
  explicit InNamespace(const std::string& name);
  ~InNamespace();
  InNamespace(const InNamespace&) = delete;
  InNamespace& operator=(const InNamespace&) = delete;

 private:
  run::FileDescriptor before_;
};

// Why this process cannot make the hosts and cables of a lab, with the mend; empty when it can. Makes one of each where
// nobody else sees them, about 20 ms.
std::string why_no_lab();

}  // namespace banyan::lab
