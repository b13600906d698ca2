#include "banyan/service/daemon/mesh_messages.h"

#include "banyan/base/error.h"
#include "banyan/run/join/wire.h"

namespace banyan::service {
namespace {

void put(run::WireWriter& writer, const SessionText& said) {
  writer.text(said.communicator).ranks(said.ranks).text(said.text);
}
SessionText take_text(run::WireReader& reader) {
  std::string communicator = reader.text();
  std::vector<uint32_t> ranks = reader.ranks();
  return {.communicator = std::move(communicator), .ranks = std::move(ranks), .text = reader.text()};
}

}  // namespace

// The first byte is the place of the message in its variant.
std::string encode(const MeshMessage& message) {
  run::WireWriter writer;
  writer.number(static_cast<uint8_t>(message.index()));
  std::visit([&](const auto& each) { put(writer, each); }, message);
  return writer.take();
}

MeshMessage decode_mesh_message(std::string_view bytes) {
  run::WireReader reader(bytes);
  const auto kind = reader.number<uint8_t>();
  if (kind != 0) throw invalid("a daemon says something unknown, number " + std::to_string(kind));
  MeshMessage message = take_text(reader);
  reader.end();
  return message;
}

}  // namespace banyan::service
