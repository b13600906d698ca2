#include "banyan/tensor/safetensors.h"

#include <limits>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/json_reader.h"

namespace banyan::tensor {
namespace {

using element::DataType;

constexpr size_t kHeaderAt = 8;
constexpr uint64_t kMostSafeHeader = 100'000'000;  // as in the library itself
constexpr std::pair<std::string_view, DataType> kSafeTypes[] = {
    {"F64", DataType::float64}, {"F32", DataType::float32}, {"F16", DataType::float16}, {"BF16", DataType::bfloat16},
    {"I64", DataType::int64},   {"I32", DataType::int32},   {"I16", DataType::int16},   {"I8", DataType::int8},
    {"U64", DataType::uint64},  {"U32", DataType::uint32},  {"U16", DataType::uint16},  {"U8", DataType::uint8}};

uint64_t header_length(std::string_view file) {
  uint64_t length = 0;
  for (size_t place = kHeaderAt; place > 0; --place) length = length << 8 | static_cast<unsigned char>(file[place - 1]);
  return length;
}

SafeTensor read_tensor(std::string name, JsonNode header, size_t data_at, size_t data_bytes) {
  header.with_keys({"dtype", "shape", "data_offsets"});
  SafeTensor tensor{.name = std::move(name), .written_type = header.at("dtype").text()};
  for (const auto& [written, type] : kSafeTypes) {
    if (tensor.written_type == written) tensor.type = type;
  }
  tensor.elements = 1;
  for (const JsonNode dimension : header.at("shape").items()) {
    tensor.shape.push_back(dimension.whole());
    if (__builtin_mul_overflow(tensor.elements, tensor.shape.back(), &tensor.elements)) {
      throw header.at("shape").error("is of more elements than any file has; is the file whole?");
    }
  }
  const JsonNode offsets = header.at("data_offsets");
  if (offsets.size() != 2) throw offsets.error("is not a begin and an end, such as [0, 64]");
  const uint64_t begin = offsets[0].whole(), end = offsets[1].whole();
  if (begin > end || end > data_bytes) {
    throw offsets.error("does not lie in the " + std::to_string(data_bytes) +
                        " bytes behind the header; is the file cut off?");
  }
  tensor.first_byte = data_at + begin;
  tensor.bytes = end - begin;
  const size_t size = tensor.type ? size_of(*tensor.type) : 0;
  if (size > 0 && (tensor.bytes % size != 0 || tensor.bytes / size != tensor.elements)) {
    throw offsets.error("are " + std::to_string(tensor.bytes) + " bytes, but the shape has " +
                        std::to_string(tensor.elements) + " elements of " + tensor.written_type +
                        "; write the file anew");
  }
  return tensor;
}

}  // namespace

bool is_safetensors(std::string_view file) {
  return file.size() > kHeaderAt && file[kHeaderAt] == '{' && header_length(file) <= kMostSafeHeader;
}

std::vector<SafeTensor> read_safetensors(std::string_view file) {
  if (!is_safetensors(file)) throw invalid("is no .safetensors file");
  const size_t length = header_length(file), behind = file.size() - kHeaderAt;
  if (length > behind) {
    throw invalid("the header of this .safetensors file should be " + std::to_string(length) +
                  " bytes long, but the file ends before; copy it again");
  }
  const JsonDocument document(file.substr(kHeaderAt, length), {.name = "the header", .depth = 4});
  std::vector<SafeTensor> tensors;
  for (const JsonNode::Member& member : document.root().members()) {
    if (member.key == "__metadata__") continue;
    tensors.push_back(read_tensor(std::string(member.key), member.value, kHeaderAt + length, behind - length));
  }
  return tensors;
}

}  // namespace banyan::tensor
