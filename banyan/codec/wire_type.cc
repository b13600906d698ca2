#include "banyan/codec/wire_type.h"

namespace banyan::codec {
namespace {

constexpr std::string_view kAs = "float32 as ";

}  // namespace

size_t WireType::bytes(size_t elements) const {
  const std::optional<Codec> codec = this->codec();
  return codec ? coded_bytes(*codec, elements) : elements * element::size_of(element());
}

std::string to_string(WireType type) {
  const std::optional<Codec> codec = type.codec();
  return codec ? std::string(kAs) + to_string(*codec) : std::string(element::to_string(type.element()));
}

WireType parse_wire_type(std::string_view text) {
  if (!text.starts_with(kAs)) return element::parse_data_type(text);
  return WireType(parse_codec(text.substr(kAs.size())));
}

}  // namespace banyan::codec
