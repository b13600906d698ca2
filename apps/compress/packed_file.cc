#include "apps/compress/packed_file.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/base/option.h"
#include "banyan/base/text.h"
#include "banyan/tensor/float_values.h"
#include "banyan/tensor/npy.h"
#include "banyan/tensor/packed.h"
#include "banyan/tensor/safetensors.h"

namespace banyan::app {
namespace {

struct TensorPlace {
  std::string name;
  std::optional<element::DataType> type;  // nothing: bytes
  size_t first_byte = 0, bytes = 0, row_elements = 1;
  bool is_coded = false;
};

struct Layout {
  std::string kind;
  std::vector<TensorPlace> tensors;  // that have elements, one behind the other up to the end
};

// Of what has elements: less than 2^32, as the file has fewer.
size_t row_of(const std::vector<uint64_t>& shape) { return shape.size() < 2 ? 1 : shape.back(); }

Layout layout_of_npy(std::string_view file) {
  const tensor::NpyArray array = tensor::read_npy(file);
  if (array.elements == 0) return {.kind = ".npy", .tensors = {}};
  const size_t bytes = file.size() - array.first_byte;
  return {.kind = ".npy", .tensors = {{"the array", array.type, array.first_byte, bytes, row_of(array.shape), true}}};
}

Layout layout_of_safetensors(std::string_view file) {
  Layout layout{.kind = ".safetensors", .tensors = {}};
  for (const tensor::SafeTensor& tensor : tensor::read_safetensors(file)) {
    const bool is_coded = tensor.type && is_floating(*tensor.type) && tensor.shape.size() >= 2;
    if (tensor.bytes > 0) {
      layout.tensors.push_back(
          {tensor.name, tensor.type, tensor.first_byte, tensor.bytes, row_of(tensor.shape), is_coded});
    }
  }
  std::sort(layout.tensors.begin(), layout.tensors.end(),
            [](const TensorPlace& a, const TensorPlace& b) { return a.first_byte < b.first_byte; });
  for (size_t i = 0; i < layout.tensors.size(); ++i) {
    const TensorPlace& tensor = layout.tensors[i];
    const size_t end = i + 1 < layout.tensors.size() ? layout.tensors[i + 1].first_byte : file.size();
    if (tensor.first_byte + tensor.bytes != end) {
      throw invalid("has " +
                    std::string(tensor.first_byte + tensor.bytes < end ? "bytes that belong to no tensor behind "
                                                                       : "bytes of several tensors in ") +
                    in_quotes(tensor.name) + "; save it anew with safetensors");
    }
  }
  return layout;
}

Layout layout_of(std::string_view file) {
  if (tensor::is_npy(file)) return layout_of_npy(file);
  if (tensor::is_safetensors(file)) return layout_of_safetensors(file);
  throw invalid("is no .npy or .safetensors file, and only these can be packed; save its tensors as one of them");
}

PackedSummary summary_of(const Layout& layout, size_t bytes, size_t packed_bytes) {
  return {.kind = layout.kind, .tensors = layout.tensors.size(), .bytes = bytes, .packed_bytes = packed_bytes};
}

// What became of the values that were coded.
class Losses {
 public:
  void add(element::DataType type, std::span<const std::byte> before, std::span<const std::byte> after, size_t coded) {
    values_.resize(before.size() / size_of(type));
    decoded_.resize(values_.size());
    tensor::read_floats(type, before, values_);
    tensor::read_floats(type, after, decoded_);
    for (size_t i = 0; i < values_.size(); ++i) {
      if (!std::isfinite(values_[i])) {
        ++not_finite_;
        continue;
      }
      const double value = values_[i], off = double{decoded_[i]} - value;
      energy_ += value * value;
      squares_ += off * off;
    }
    count_ += values_.size();
    coded_ += coded;
    ++tensors_;
  }

  void tell(PackedSummary& summary) const {
    summary.coded = tensors_;
    if (tensors_ == 0) return;
    summary.bits = 8 * static_cast<double>(coded_) / static_cast<double>(count_);
    summary.error = squares_ == 0 ? 0 : std::sqrt(squares_ / energy_);
    summary.not_finite = not_finite_;
  }

 private:
  std::vector<float> values_, decoded_;
  double energy_ = 0, squares_ = 0;
  uint64_t not_finite_ = 0, tensors_ = 0, count_ = 0, coded_ = 0;
};

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

PackedFile pack_file(const std::string& path, double bits, const std::function<void(double)>& progress) {
  const std::string file = read_file(path);
  return parse_option(path, [&] {
    const Layout layout = layout_of(file);
    const size_t first = layout.tensors.empty() ? file.size() : layout.tensors.front().first_byte;
    tensor::PackedWriter writer(std::string_view(file).substr(0, first));
    for (const TensorPlace& tensor : layout.tensors) {
      const std::span<const std::byte> elements = bytes_of(file).subspan(tensor.first_byte, tensor.bytes);
      if (tensor.is_coded) {
        writer.add_at_rate(elements, {.type = *tensor.type, .bits = bits, .row_elements = tensor.row_elements});
      } else {
        writer.add(elements, tensor.type ? size_of(*tensor.type) : 1);
      }
      progress(static_cast<double>(tensor.first_byte + tensor.bytes) / static_cast<double>(file.size()));
    }
    PackedFile packed{.summary = {}, .contents = std::move(writer).finish()};
    packed.summary = summary_of(layout, file.size(), packed.contents.size());
    // Read back: what is told is what a reader will find.
    const tensor::PackedContent content = tensor::read_packed(packed.contents);
    const std::string back = tensor::unpack(content);
    Losses losses;
    for (size_t i = 0; i < layout.tensors.size(); ++i) {
      const TensorPlace& tensor = layout.tensors[i];
      const auto part = [&](const std::string& of) { return bytes_of(of).subspan(tensor.first_byte, tensor.bytes); };
      if (content.parts[i].packing == tensor::Packing::at_rate) {
        losses.add(*tensor.type, part(file), part(back), content.parts[i].coded.size());
      }
    }
    losses.tell(packed.summary);
    return packed;
  });
}

PackedFile unpack_file(const std::string& path) {
  const std::string file = read_file(path);
  return parse_option(path, [&] {
    const tensor::PackedContent content = tensor::read_packed(file);
    PackedFile unpacked{.summary = {}, .contents = tensor::unpack(content)};
    unpacked.summary = summary_of(layout_of(unpacked.contents), unpacked.contents.size(), file.size());
    unpacked.summary.coded = static_cast<size_t>(
        std::count_if(content.parts.begin(), content.parts.end(),
                      [](const tensor::PackedPart& part) { return part.packing == tensor::Packing::at_rate; }));
    return unpacked;
  });
}

}  // namespace banyan::app
