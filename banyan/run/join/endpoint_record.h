// EndpointRecord: what a process tells the others about itself when they meet.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/run/join/world.h"
#include "banyan/run/system/cores.h"

namespace banyan::run {

struct EndpointRecord {
  // The version of cards, and of what ranks tell each other later (run/execute/revision.h, plan_switch.h). Processes of
  // another version do not understand them.
  static constexpr uint32_t kVersion = 4;

  uint32_t rank = 0;
  Member member;
  Cores cores;                                // own_cores()
  std::map<std::string, std::string> extras;  // for transports: the name of one, and what its peers must know

  // JSON. Bytes of texts that are no UTF-8 are replaced.
  std::string encode() const;
  // Throws Error{invalid_input} for what is no card; Error{mismatch} for one of another version.
  static EndpointRecord decode(std::string_view text);
  // "process 4711 on node7".
  std::string described() const;
};

// This process. Throws Error{io}.
Member describe_self(uint16_t port, std::vector<std::string> addresses);

// Equal for two processes that can share memory, and see each other by process id: it is made of the kernel's boot id
// and of the namespaces for network, processes and shared memory. BANYAN_HOST_ID stands for the namespaces when it is
// set: for containers that share everything that matters, or to treat one machine as many. Throws Error{io}.
std::string own_host_id();
// Equal for two processes of one host that may open each other's memory (/proc/PID/fd): it is made of what ptrace(2)
// asks for, which is the user namespace and, without CAP_SYS_PTRACE, users, groups and capabilities. Throws Error{io}.
std::string own_memory_scope();
// True if two processes with these host ids reach each other by the loopback.
bool share_loopback(const std::string& host_id, const std::string& other);

}  // namespace banyan::run
