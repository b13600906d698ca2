#include "banyan/service/cluster/mesh_messages.h"

#include <bit>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/join/wire.h"
#include "banyan/service/protocol/messages.h"

namespace banyan::service {
namespace {

using run::WireReader;
using run::WireWriter;

void put(WireWriter& writer, double number) { writer.number(std::bit_cast<uint64_t>(number)); }
double take_double(WireReader& reader) { return std::bit_cast<double>(reader.number<uint64_t>()); }

void put(WireWriter& writer, const SessionText& said) {
  writer.text(said.communicator).ranks(said.ranks).text(said.text).number(said.user);
}
void take(WireReader& reader, SessionText& said) {
  said.communicator = reader.text();
  said.ranks = reader.ranks();
  said.text = reader.text();
  said.user = reader.number<uint32_t>();
}

void put(WireWriter& writer, const CallReport& report) {
  writer.text(report.communicator).number(report.number).text(report.sharer);
  put(writer, report.weight);
  writer.number(static_cast<uint8_t>(report.share_class));
  put(writer, report.cap);
  writer.number(static_cast<uint8_t>(report.is_under_way));
  writer.number(static_cast<uint32_t>(report.footprint.size()));
  for (const LinkUse& use : report.footprint) {
    writer.number(use.link);
    put(writer, use.bytes);
  }
  put(writer, report.done);
}
void take(WireReader& reader, CallReport& report) {
  report.communicator = reader.text();
  report.number = reader.number<uint64_t>();
  report.sharer = reader.text();
  report.weight = take_double(reader);
  report.share_class = static_cast<ShareClass>(reader.number<uint8_t>());
  report.cap = take_double(reader);
  report.is_under_way = reader.number<uint8_t>() != 0;
  report.footprint.resize(reader.count(sizeof(uint32_t) + sizeof(uint64_t)));
  for (LinkUse& use : report.footprint) {
    use.link = reader.number<uint32_t>();
    use.bytes = take_double(reader);
  }
  report.done = take_double(reader);
}

void put(WireWriter& writer, const Activity& activity) {
  put(writer, activity.report);
  writer.number(static_cast<uint32_t>(activity.members.size()));
  for (const RanksOnHost& each : activity.members) writer.text(each.host).ranks(each.ranks);
}
void take(WireReader& reader, Activity& activity) {
  take(reader, activity.report);
  activity.members.resize(reader.count(2 * sizeof(uint32_t)));
  for (RanksOnHost& each : activity.members) {
    each.host = reader.text();
    each.ranks = reader.ranks();
  }
}

void put(WireWriter& writer, const SessionRate& said) {
  writer.text(said.communicator).ranks(said.ranks).number(said.rate);
}
void take(WireReader& reader, SessionRate& said) {
  said.communicator = reader.text();
  said.ranks = reader.ranks();
  said.rate = reader.number<uint64_t>();
}

void put(WireWriter& writer, const OperatorQuestion& question) {
  writer.number(question.number).text(question.command).text(question.body);
}
void take(WireReader& reader, OperatorQuestion& question) {
  question.number = reader.number<uint64_t>();
  question.command = reader.text();
  question.body = reader.text();
}

void put(WireWriter& writer, const OperatorAnswer& answer) {
  writer.number(answer.number).number(static_cast<uint8_t>(answer.is_refusal)).text(answer.body);
}
void take(WireReader& reader, OperatorAnswer& answer) {
  answer.number = reader.number<uint64_t>();
  answer.is_refusal = reader.number<uint8_t>() != 0;
  answer.body = reader.text();
}

void put(WireWriter& writer, const SessionView& said) {
  writer.text(said.communicator).number(static_cast<uint32_t>(said.view.size()));
  for (const LinkPart& part : said.view) writer.number(part.link).number(static_cast<uint8_t>(part.sixteenths));
}
void take(WireReader& reader, SessionView& said) {
  said.communicator = reader.text();
  said.view.resize(reader.count(sizeof(uint32_t) + sizeof(uint8_t)));
  for (LinkPart& part : said.view) {
    part.link = reader.number<uint32_t>();
    part.sixteenths = reader.number<uint8_t>();
    if (part.sixteenths < 1 || part.sixteenths > 16) {
      throw invalid("a part of a link is " + std::to_string(part.sixteenths) + " sixteenths, not 1 to 16");
    }
  }
}

void put(WireWriter& writer, const SessionRefusal& said) {
  writer.text(said.communicator);
  put_error(writer, said.error);
  writer.number(said.user);
}
MeshMessage take_refusal(WireReader& reader) {
  std::string communicator = reader.text();
  Error error = take_error(reader);
  const SessionRefusal said{
      .communicator = std::move(communicator), .error = std::move(error), .user = reader.number<uint32_t>()};
  reader.end();
  return said;
}

template <typename Message>
MeshMessage take_message(WireReader& reader) {
  Message message;
  take(reader, message);
  reader.end();
  return message;
}

}  // namespace

// The first byte is the place of the message in its variant.
std::string encode(const MeshMessage& message) {
  WireWriter writer;
  writer.number(static_cast<uint8_t>(message.index()));
  std::visit([&](const auto& each) { put(writer, each); }, message);
  return writer.take();
}

MeshMessage decode_mesh_message(std::string_view bytes) {
  WireReader reader(bytes);
  const auto kind = reader.number<uint8_t>();
  switch (kind) {
    case 0:
      return take_message<SessionText>(reader);
    case 1:
      return take_message<Activity>(reader);
    case 2:
      return take_message<SessionRate>(reader);
    case 3:
      return take_message<OperatorQuestion>(reader);
    case 4:
      return take_message<OperatorAnswer>(reader);
    case 5:
      return take_message<SessionView>(reader);
    case 6:
      return take_refusal(reader);
    default:
      throw invalid("a daemon says something unknown, number " + std::to_string(kind));
  }
}

}  // namespace banyan::service
