#include "banyan/job/chakra/streams.h"

#include <array>
#include <string_view>

namespace banyan::job {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"host", "compute", "memory", "collectives", "messages", "markers"};

}  // namespace

std::string ChakraStream::name() const {
  if (!number) return std::string(kNames[static_cast<size_t>(kind)]);
  return "stream " + std::to_string(*number) + (kind == Kind::messages ? " messages" : "");
}

ChakraStream chakra_stream(NodeKind kind, bool is_on_host, std::optional<uint64_t> number) {
  using Kind = ChakraStream::Kind;
  switch (kind) {
    case NodeKind::compute:
      return is_on_host ? ChakraStream{Kind::host, {}} : ChakraStream{Kind::compute, number};
    case NodeKind::host:
      return {Kind::host, {}};
    case NodeKind::memory:
      return {Kind::memory, number};
    case NodeKind::collective:
      return {Kind::collectives, number};
    case NodeKind::send:
    case NodeKind::receive:
      return {Kind::messages, number};
    case NodeKind::marker:
      break;
  }
  return {Kind::markers, {}};
}

}  // namespace banyan::job
