#include "banyan/service/cluster/mesh_messages.h"

#include "banyan/service/protocol/wire_fields.h"

namespace banyan::service {

// A part of a link goes in one byte beside the link.
template <>
constexpr size_t least_bytes<LinkPart>() {
  return sizeof(uint32_t) + sizeof(uint8_t);
}
static void put(run::WireWriter& writer, const LinkPart& part) {
  writer.number(part.link).number(static_cast<uint8_t>(part.sixteenths));
}
static void take(run::WireReader& reader, LinkPart& part) {
  part.link = reader.number<uint32_t>();
  part.sixteenths = reader.number<uint8_t>();
  if (part.sixteenths >= 1 && part.sixteenths <= 16) return;
  throw invalid("a part of a link is " + std::to_string(part.sixteenths) + " sixteenths, not 1 to 16");
}

// ---- The fields of each message, in their order ----

template <>
inline constexpr auto kWireFields<RanksOnHost> = std::tuple{&RanksOnHost::host, &RanksOnHost::ranks};
template <>
inline constexpr auto kWireFields<LinkUse> = std::tuple{&LinkUse::link, &LinkUse::bytes};
template <>
inline constexpr auto kWireFields<CallReport> =
    std::tuple{&CallReport::communicator, &CallReport::number,      &CallReport::sharer,
               &CallReport::weight,       &CallReport::share_class, &CallReport::cap,
               &CallReport::is_under_way, &CallReport::footprint,   &CallReport::done};
template <>
inline constexpr auto kWireFields<SessionText> =
    std::tuple{&SessionText::communicator, &SessionText::ranks, &SessionText::text, &SessionText::user};
template <>
inline constexpr auto kWireFields<SessionRefusal> =
    std::tuple{&SessionRefusal::communicator, &SessionRefusal::error, &SessionRefusal::user};
template <>
inline constexpr auto kWireFields<Activity> = std::tuple{&Activity::report, &Activity::members};
template <>
inline constexpr auto kWireFields<SessionRate> =
    std::tuple{&SessionRate::communicator, &SessionRate::ranks, &SessionRate::rate};
template <>
inline constexpr auto kWireFields<SessionView> = std::tuple{&SessionView::communicator, &SessionView::view};
template <>
inline constexpr auto kWireFields<OperatorQuestion> =
    std::tuple{&OperatorQuestion::number, &OperatorQuestion::command, &OperatorQuestion::body};
template <>
inline constexpr auto kWireFields<OperatorAnswer> =
    std::tuple{&OperatorAnswer::number, &OperatorAnswer::is_refusal, &OperatorAnswer::body};

std::string encode(const MeshMessage& message) { return encode_one_of(message); }
MeshMessage decode_mesh_message(std::string_view bytes) { return decode_one_of<MeshMessage>(bytes); }

}  // namespace banyan::service
