// Sockets that listen already, handed to the daemon by whoever started it (service_manager.h). Where one is not open,
// the daemon listens by itself, or not at all.
#pragma once

#include "banyan/run/system/file_descriptor.h"

namespace banyan::service {

struct HandedSockets {
  run::FileDescriptor tenants;    // unix, SOCK_SEQPACKET: where programs attach
  run::FileDescriptor operators;  // unix, SOCK_STREAM: HTTP, also what changes something
  run::FileDescriptor http;       // TCP: HTTP, for looking only
};

}  // namespace banyan::service
