#include "banyan/tensor/npy.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "banyan/base/error.h"

namespace banyan::tensor {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr size_t kMostDimensions = 64;  // numpy's own limit is 32, of later versions 64

Error damaged(const std::string& what) {
  return invalid("the header of this .npy file " + what + "; write it anew with numpy.save");
}

Error unsupported(const std::string& what) { return Error(ErrorCode::unsupported, what); }

element::DataType type_of(std::string_view description) {
  if (description == "<f2") return element::DataType::float16;
  if (description == "<f4") return element::DataType::float32;
  if (description == "<f8") return element::DataType::float64;
  if (description.starts_with(">f")) {
    throw unsupported("elements are " + in_quotes(description) + ", which is big-endian; save array.astype('<" +
                      std::string(description.substr(1, 8)) + "')");
  }
  throw unsupported("elements are " + in_quotes(description) +
                    ", but float16, float32 and float64 are read; save array.astype('float32')");
}

// The dictionary, as Python prints it and with any blanks.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  NpyArray read() {
    NpyArray array;
    bool has_type = false, has_order = false, has_shape = false;
    expect('{');
    while (!take('}')) {
      const std::string_view key = word();
      expect(':');
      if (key == "descr" && !has_type) {
        if (next() == '[' || next() == '(') {
          throw unsupported("elements are records of several fields; save one of them: numpy.save(file, array['x'])");
        }
        array.type = type_of(word());
        has_type = true;
      } else if (key == "fortran_order" && !has_order) {
        if (truth()) {
          throw unsupported("elements are in Fortran order; save numpy.ascontiguousarray(array)");
        }
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        array.shape = shape();
        has_shape = true;
      } else {
        throw damaged("has " + in_quotes(key) + " where 'descr', 'fortran_order' or 'shape' belongs");
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (!has_type || !has_order || !has_shape) throw damaged("lacks 'descr', 'fortran_order' or 'shape'");
    if (next() != '\0') throw damaged("goes on behind its '}'");
    return array;
  }

 private:
  // The next character that is no blank, or '\0' at the end.
  char next() {
    const size_t first = text_.find_first_not_of(" \t\r\n");
    text_.remove_prefix(std::min(first, text_.size()));
    return text_.empty() ? '\0' : text_.front();
  }

  bool take(char expected) {
    if (next() != expected || text_.empty()) return false;
    text_.remove_prefix(1);
    return true;
  }

  void expect(char expected) {
    if (!take(expected)) throw damaged(std::string("lacks a '") + expected + "'");
  }

  std::string_view word() {
    const char quote = next();
    if (quote != '\'' && quote != '"') throw damaged("lacks a text in quotes");
    const size_t end = text_.find(quote, 1);
    if (end == std::string_view::npos) throw damaged("has a text without an end");
    const std::string_view found = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return found;
  }

  bool truth() {
    next();
    for (const bool value : {true, false}) {
      const std::string_view name = value ? "True" : "False";
      if (!text_.starts_with(name)) continue;
      text_.remove_prefix(name.size());
      return value;
    }
    throw damaged("has neither True nor False as 'fortran_order'");
  }

  std::vector<uint64_t> shape() {
    std::vector<uint64_t> all;
    expect('(');
    while (!take(')')) {
      if (all.size() == kMostDimensions) throw damaged("has more than 64 dimensions");
      all.push_back(whole_number());
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return all;
  }

  // Python 2 wrote an L behind long ones.
  uint64_t whole_number() {
    next();
    const size_t digits = std::min(text_.find_first_not_of("0123456789"), text_.size());
    if (digits == 0) throw damaged("has a shape that is not made of whole numbers");
    if (digits > 18) throw damaged("has a dimension of more than 10^18");
    uint64_t value = 0;
    for (const char digit : text_.substr(0, digits)) value = 10 * value + static_cast<uint64_t>(digit - '0');
    text_.remove_prefix(digits);
    if (text_.starts_with('L')) text_.remove_prefix(1);
    return value;
  }

  std::string_view text_;
};

// Of elements of a shape; nothing when they are more than any file holds.
std::optional<size_t> count_elements(const std::vector<uint64_t>& shape) {
  size_t count = 1;
  for (const uint64_t each : shape) {
    if (each != 0 && count > std::numeric_limits<size_t>::max() / 8 / each) return std::nullopt;
    count *= each;
  }
  return count;
}

}  // namespace

bool is_npy(std::string_view file) { return file.starts_with(kNpyMagic); }

NpyArray read_npy(std::string_view file) {
  if (!is_npy(file)) throw invalid("is no .npy file");
  const auto byte = [&](size_t place) { return static_cast<size_t>(static_cast<unsigned char>(file[place])); };
  const size_t version_at = kNpyMagic.size(), length_at = version_at + 2;
  if (file.size() < length_at) throw damaged("is cut off");
  const size_t version = byte(version_at);
  if (version < 1 || version > 3 || byte(version_at + 1) != 0) {
    throw unsupported("is version " + std::to_string(version) + "." + std::to_string(byte(version_at + 1)) +
                      " of .npy, but 1.0, 2.0 and 3.0 are read; save it as one of those with numpy.lib.format");
  }
  const size_t header_at = length_at + (version == 1 ? 2 : 4);
  if (file.size() < header_at) throw damaged("is cut off");
  size_t length = 0;
  for (size_t place = header_at; place > length_at; --place) length = length << 8 | byte(place - 1);
  if (length > file.size() - header_at) {
    throw damaged("should be " + std::to_string(length) + " bytes long, but the file ends before");
  }
  NpyArray array = HeaderReader(file.substr(header_at, length)).read();
  array.first_byte = header_at + length;
  const size_t held = file.size() - array.first_byte, size = size_of(array.type);
  const std::optional<size_t> elements = count_elements(array.shape);
  if (!elements || *elements * size != held) {
    throw invalid("the shape in its header needs " +
                  (elements ? std::to_string(*elements * size) + " bytes" : "more bytes than any file has") + ", but " +
                  std::to_string(held) +
                  " follow; the file is cut off or has several arrays: save one with numpy.save");
  }
  array.elements = *elements;
  return array;
}

}  // namespace banyan::tensor
