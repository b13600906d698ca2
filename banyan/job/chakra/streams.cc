#include "banyan/job/chakra/streams.h"

#include <array>
#include <string_view>

namespace banyan::job::chakra {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"host", "compute", "memory", "collectives", "messages", "markers"};

}  // namespace

std::string StreamLabel::name() const {
  if (!number) return std::string(kNames[static_cast<size_t>(kind)]);
  return "stream " + std::to_string(*number) + (kind == Kind::messages ? " messages" : "");
}

StreamLabel stream_label(NodeKind kind, bool is_on_host, std::optional<uint64_t> number) {
  using Kind = StreamLabel::Kind;
  switch (kind) {
    case NodeKind::compute:
      return is_on_host ? StreamLabel{Kind::host, {}} : StreamLabel{Kind::compute, number};
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

}  // namespace banyan::job::chakra
