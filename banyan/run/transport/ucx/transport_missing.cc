// In place of ucx_transport.cc where UCX's headers are not found.
#include "banyan/base/error.h"
#include "banyan/run/transport/ucx/transport.h"

namespace banyan::run::ucx {

std::unique_ptr<ChannelTransport> make_transport(std::unique_ptr<Connector> /*connector*/, const Options& /*options*/) {
  throw Error(ErrorCode::unsupported,
              "this Banyan was built without UCX; build it where UCX is installed (Debian: libucx-dev) or choose "
              "another transport");
}

std::string why_unavailable() { return "this Banyan was built without it (Debian: libucx-dev)"; }

}  // namespace banyan::run::ucx
