#include "apps/compress/recorded_tensor.h"

#include <algorithm>

#include "banyan/base/file.h"
#include "banyan/base/nearest.h"
#include "banyan/base/option.h"
#include "banyan/base/text.h"
#include "banyan/tensor/npy.h"
#include "banyan/tensor/safetensors.h"

namespace banyan::app {
namespace {

std::string all_float_types() {
  std::string all;
  for (const std::string& each : float_types()) all += (all.empty() ? "" : ", ") + each;
  return all;
}

// What to name, of a file with so many tensors.
std::string names_of(const std::vector<tensor::SafeTensor>& tensors) {
  constexpr size_t kShown = 4;
  std::string names;
  for (size_t i = 0; i < std::min(kShown, tensors.size()); ++i) {
    names += (i > 0 ? ", " : "") + tensors[i].name.substr(0, NearestName::kMaxLength) + " (" + tensors[i].written_type;
    for (const uint64_t each : tensors[i].shape) names += " " + std::to_string(each);
    names += ")";
  }
  return names + (tensors.size() > kShown ? ", ..." : "");
}

tensor::SafeTensor find_tensor(const std::string& contents, const TensorOptions& options) {
  if (options.type) throw invalid("is a .safetensors file, which says types itself; leave out --type");
  std::vector<tensor::SafeTensor> tensors = tensor::read_safetensors(contents);
  if (tensors.empty()) throw invalid("holds no tensor; name a file that has some");
  if (options.name.empty() && tensors.size() > 1) {
    throw invalid("holds " + plural(tensors.size(), "tensor") + ": " + names_of(tensors) + "; name one: --tensor " +
                  tensors.front().name.substr(0, NearestName::kMaxLength));
  }
  auto found = tensors.begin();
  if (!options.name.empty()) {
    found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& one) { return one.name == options.name; });
  }
  if (found == tensors.end()) {
    NearestName nearest(options.name);
    for (const tensor::SafeTensor& tensor : tensors) nearest.offer(tensor.name);
    throw Error(ErrorCode::not_found,
                "has no tensor " + in_quotes(options.name) + nearest.hint() + "; it holds " + names_of(tensors));
  }
  if (!found->type || !is_floating(*found->type)) {
    throw invalid("tensor " + in_quotes(found->name) + " is of " + found->written_type +
                  ", and codes are for F64, F32, F16 and BF16; name another one by --tensor");
  }
  if (found->elements == 0) throw invalid("tensor " + in_quotes(found->name) + " has no elements; name another one");
  return std::move(*found);
}

tensor::NpyArray read_raw(const std::string& contents, std::optional<element::DataType> type) {
  if (contents.starts_with("PK\x03\x04")) {
    throw invalid("is an archive, as numpy.savez and torch.save write them; save one array with numpy.save");
  }
  if (!type) throw invalid("is no .npy or .safetensors file; say what its elements are, such as --type float32");
  const size_t size = element::size_of(*type);
  if (contents.size() % size != 0) {
    throw invalid(plural(contents.size(), "byte") + " are not whole elements of " + std::to_string(size) +
                  "; name another --type");
  }
  const size_t elements = contents.size() / size;
  return {.type = *type, .shape = {elements}, .elements = elements, .first_byte = 0};
}

}  // namespace

RecordedTensor RecordedTensor::load(const std::string& path, const TensorOptions& options) {
  RecordedTensor loaded;
  loaded.contents_ = read_file(path);
  const tensor::NpyArray array = parse_option(path, [&] {
    if (tensor::is_safetensors(loaded.contents_)) {
      tensor::SafeTensor tensor = find_tensor(loaded.contents_, options);
      loaded.name_ = std::move(tensor.name);
      return tensor::NpyArray{.type = *tensor.type,
                              .shape = std::move(tensor.shape),
                              .elements = tensor.elements,
                              .first_byte = tensor.first_byte};
    }
    if (!options.name.empty()) throw invalid("is no .safetensors file, and has no names; leave out --tensor");
    const bool has_header = tensor::is_npy(loaded.contents_);
    if (has_header && options.type) throw invalid("is a .npy file, which says its type itself; leave out --type");
    tensor::NpyArray found = has_header ? tensor::read_npy(loaded.contents_) : read_raw(loaded.contents_, options.type);
    if (found.elements == 0) throw invalid("holds no elements; name a tensor that has some");
    return found;
  });
  loaded.first_byte_ = array.first_byte;
  loaded.bytes_ = array.elements * size_of(array.type);
  loaded.type_ = array.type;
  loaded.shape_ = array.shape;
  loaded.row_elements_ = array.shape.size() < 2 ? 1 : array.shape.back();
  if (!options.row_elements.empty()) {
    loaded.row_elements_ = parse_count(options.row_elements, "--row", {.least = 1, .most = array.elements});
    if (array.elements % loaded.row_elements_ != 0) {
      throw Error(
          ErrorCode::invalid_input,
          plural(array.elements, "element") + " are not whole rows of " + options.row_elements + "; name a divisor",
          "--row");
    }
  }
  return loaded;
}

tensor::Tensor RecordedTensor::tensor() const {
  return {.type = type_,
          .elements = std::as_bytes(std::span(contents_)).subspan(first_byte_, bytes_),
          .row_elements = row_elements_};
}

std::vector<std::string> float_types() {
  std::vector<std::string> all;
  for (size_t i = 0; i < element::kDataTypes; ++i) {
    const auto type = static_cast<element::DataType>(i);
    if (is_floating(type)) all.emplace_back(to_string(type));
  }
  return all;
}

element::DataType parse_float_type(const std::string& text) {
  const element::DataType type = element::parse_data_type(text);
  if (is_floating(type)) return type;
  throw invalid("codes are for floats, not " + std::string(to_string(type)) + "; known are " + all_float_types());
}

}  // namespace banyan::app
