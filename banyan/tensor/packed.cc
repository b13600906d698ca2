#include "banyan/tensor/packed.h"

#include <algorithm>
#include <array>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/tensor/float_values.h"
#include "banyan/tensor/lossless.h"
#include "banyan/tensor/number_bytes.h"
#include "banyan/tensor/rate_coder.h"

namespace banyan::tensor {
namespace {

using element::DataType;

constexpr std::string_view kPackedMagic = "BNPACK1\n", kAnyVersion = "BNPACK";
constexpr uint8_t kPackedEnd = 255;
constexpr size_t kChecksumBytes = 8;
constexpr uint64_t kMostUnpacked = uint64_t{1} << 32;
// A binary decision takes 0.0007 bit at least, so a byte cannot stand for more values.
constexpr uint64_t kMostValuesOfAByte = 16'384;
constexpr std::array kFloatTypes = {DataType::float16, DataType::bfloat16, DataType::float32, DataType::float64};

std::span<const std::byte> text_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

uint8_t number_of(DataType type) {
  for (size_t i = 0; i < kFloatTypes.size(); ++i) {
    if (kFloatTypes[i] == type) return static_cast<uint8_t>(i);
  }
  CHECK(false) << to_string(type) << " is no type of floats";
  return 0;
}

Error damaged_file(const std::string& what) {
  return invalid("this packed file " + what + "; it is damaged or was not written by banyan compress");
}

// The bytes that are not read yet.
class PackedRest {
 public:
  explicit PackedRest(std::string_view bytes) : bytes_(text_bytes(bytes)) {}

  std::span<const std::byte> take(uint64_t count, const std::string& what) {
    if (count > bytes_.size()) {
      throw damaged_file("ends in the middle: " + what + " wants " + std::to_string(count) + " bytes, and " +
                         std::to_string(bytes_.size()) + " are left");
    }
    const std::span<const std::byte> taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  template <typename T>
  T number(const std::string& what) {
    return number_at<T>(take(sizeof(T), what), 0);
  }
  bool is_empty() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

PackedPart read_part(PackedRest& rest, uint8_t packing, const std::string& name) {
  PackedPart part{.packing = static_cast<Packing>(packing), .coded = {}};
  const auto type = rest.number<uint8_t>(name);
  part.coded = rest.take(rest.number<uint64_t>(name), name);
  switch (part.packing) {
    case Packing::as_it_is:
      part.bytes = part.coded.size();
      break;
    case Packing::lossless:
      part.bytes = read_lossless(part.coded).bytes;
      break;
    case Packing::at_rate: {
      if (type >= kFloatTypes.size())
        throw damaged_file("has " + name + " of type " + std::to_string(type) + ", which is none");
      const uint64_t values = read_at_rate(part.coded).elements;
      if (values > part.coded.size() * kMostValuesOfAByte) {
        throw damaged_file("has " + name + " of " + std::to_string(values) + " values in " +
                           std::to_string(part.coded.size()) + " bytes, which cannot be");
      }
      part.type = kFloatTypes[type];
      part.bytes = values * size_of(part.type);
      return part;
    }
    default:
      throw damaged_file("has " + name + " of packing " + std::to_string(packing) + ", which is none");
  }
  if (type != 0) throw damaged_file("has " + name + " of type " + std::to_string(type) + " where none is needed");
  return part;
}

}  // namespace

PackedWriter::PackedWriter(std::string_view before) {
  const std::span<const std::byte> magic = text_bytes(kPackedMagic), first = text_bytes(before);
  file_.assign(magic.begin(), magic.end());
  append_number(file_, uint64_t{before.size()});
  file_.insert(file_.end(), first.begin(), first.end());
}

void PackedWriter::add_part(Packing packing, uint8_t type, std::span<const std::byte> bytes) {
  append_number(file_, packing);
  append_number(file_, type);
  append_number(file_, uint64_t{bytes.size()});
  file_.insert(file_.end(), bytes.begin(), bytes.end());
}

void PackedWriter::add(std::span<const std::byte> elements, size_t element_bytes) {
  const bool has_planes = element_bytes == 2 || element_bytes == 4 || element_bytes == 8;
  if (has_planes && !elements.empty()) {
    const std::vector<std::byte> coded = encode_lossless(elements, {.element_bytes = element_bytes});
    if (coded.size() < elements.size()) return add_part(Packing::lossless, 0, coded);
  }
  add_part(Packing::as_it_is, 0, elements);
}

Packing PackedWriter::add_at_rate(std::span<const std::byte> elements, const AtRate& options) {
  const size_t size = size_of(options.type);
  std::vector<float> values(elements.size() / size);
  read_floats(options.type, elements, values);
  const std::vector<std::byte> at_rate =
      encode_at_rate(values, {.bits = options.bits, .row_elements = options.row_elements});
  const std::vector<std::byte> exact = encode_lossless(elements, {.element_bytes = size});
  if (elements.size() <= std::min(at_rate.size(), exact.size())) {
    add_part(Packing::as_it_is, 0, elements);
    return Packing::as_it_is;
  }
  if (exact.size() <= at_rate.size()) {
    add_part(Packing::lossless, 0, exact);
    return Packing::lossless;
  }
  add_part(Packing::at_rate, number_of(options.type), at_rate);
  return Packing::at_rate;
}

std::string PackedWriter::finish() && {
  append_number(file_, kPackedEnd);
  std::string file(reinterpret_cast<const char*>(file_.data()), file_.size());
  file_ = {};
  const uint64_t checksum = packed_checksum(file);
  return file.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
}

bool is_packed(std::string_view file) { return file.starts_with(kAnyVersion); }

PackedContent read_packed(std::string_view file) {
  if (!is_packed(file)) throw invalid("is no packed file, as banyan compress --bits writes them");
  if (!file.starts_with(kPackedMagic)) {
    if (kPackedMagic.starts_with(file)) throw damaged_file("ends in the middle of its first word");
    throw Error(ErrorCode::unsupported,
                "is a packed file of another version than 1; unpack it by the banyan that wrote it");
  }
  if (file.size() < kPackedMagic.size() + kChecksumBytes)
    throw damaged_file("is " + std::to_string(file.size()) + " bytes long");
  const std::string_view summed = file.substr(0, file.size() - kChecksumBytes);
  if (number_at<uint64_t>(text_bytes(file), summed.size()) != packed_checksum(summed)) {
    throw damaged_file("is not what was written: its checksum is that of other bytes");
  }
  PackedRest rest(summed.substr(kPackedMagic.size()));
  PackedContent content;
  const std::span<const std::byte> before = rest.take(rest.number<uint64_t>("the beginning"), "the beginning");
  content.before = {reinterpret_cast<const char*>(before.data()), before.size()};
  content.bytes = before.size();
  for (auto packing = rest.number<uint8_t>("the end"); packing != kPackedEnd;
       packing = rest.number<uint8_t>("the end")) {
    const std::string name = "tensor " + std::to_string(content.parts.size() + 1);
    content.parts.push_back(read_part(rest, packing, name));
    content.bytes += content.parts.back().bytes;
    if (content.bytes > kMostUnpacked) {
      throw Error(ErrorCode::unsupported, "is more than 4 GiB unpacked; pack its tensors in several files");
    }
  }
  if (!rest.is_empty()) throw damaged_file("goes on behind its end");
  return content;
}

std::string unpack(const PackedContent& content) {
  std::string file;
  file.reserve(content.bytes);
  file.append(content.before);
  std::vector<float> values;
  for (const PackedPart& part : content.parts) {
    const size_t first = file.size();
    file.resize(first + part.bytes);
    const std::span<std::byte> to = std::as_writable_bytes(std::span(file)).subspan(first);
    switch (part.packing) {
      case Packing::as_it_is:
        std::copy(part.coded.begin(), part.coded.end(), to.begin());
        break;
      case Packing::lossless:
        decode_lossless(part.coded, to);
        break;
      case Packing::at_rate:
        values.resize(part.bytes / size_of(part.type));
        decode_at_rate(part.coded, values);
        write_floats(part.type, values, to);
        break;
    }
  }
  return file;
}

uint64_t packed_checksum(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

}  // namespace banyan::tensor
