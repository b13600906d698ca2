#include "banyan/tensor/lossless.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <string>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/tensor/number_bytes.h"

namespace banyan::tensor {
namespace {

constexpr std::array<char, 4> kMagic = {'B', 'N', 'Z', '1'};
constexpr size_t kHeaderBytes = 16, kLengthBytes = 4, kPieceElements = size_t{1} << 18;

bool is_element_size(size_t bytes) { return bytes == 2 || bytes == 4 || bytes == 8; }

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
template <typename Context>
std::unique_ptr<Context, FreeContext> owned(Context* context) {
  if (context == nullptr) throw std::bad_alloc();
  return std::unique_ptr<Context, FreeContext>(context);
}

template <size_t kBytes>
void split(std::span<const std::byte> elements, size_t plane, std::byte* to) {
  for (size_t i = 0; i < elements.size() / kBytes; ++i) to[i] = elements[kBytes * i + plane];
}
template <size_t kBytes>
void join(std::byte* elements, size_t count, const std::byte* planes) {
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < kBytes; ++k) elements[kBytes * i + k] = planes[k * count + i];
  }
}
void split(std::span<const std::byte> elements, size_t element_bytes, size_t plane, std::byte* to) {
  if (element_bytes == 2) return split<2>(elements, plane, to);
  if (element_bytes == 4) return split<4>(elements, plane, to);
  split<8>(elements, plane, to);
}
void join(std::byte* elements, size_t element_bytes, size_t count, const std::byte* planes) {
  if (element_bytes == 2) return join<2>(elements, count, planes);
  if (element_bytes == 4) return join<4>(elements, count, planes);
  join<8>(elements, count, planes);
}

std::string place(size_t piece, size_t plane) {
  return "plane " + std::to_string(plane) + " of piece " + std::to_string(piece);
}

// The planes of coded bytes, whose header has been read, one after the other.
class Planes {
 public:
  Planes(std::span<const std::byte> coded, const LosslessContent& content)
      : coded_(coded), left_(content.bytes / content.element_bytes), planes_(content.element_bytes) {}

  bool next() {
    if (plane_ == planes_) left_ -= elements(), plane_ = 0, ++piece_;
    if (left_ == 0) return false;
    if (coded_.size() - at_ < kLengthBytes) throw cut_off(kLengthBytes);
    const size_t length = number_at<uint32_t>(coded_, at_);
    at_ += kLengthBytes;
    if (length == 0 || length > elements()) {
      throw invalid("coded elements: " + place(piece_, plane_) + " has " + std::to_string(length) + " bytes for " +
                    std::to_string(elements()) + " elements; they are damaged");
    }
    if (coded_.size() - at_ < length) throw cut_off(length);
    bytes_ = coded_.subspan(at_, length);
    at_ += length, ++plane_;
    return true;
  }
  size_t elements() const { return std::min(left_, kPieceElements); }  // of the piece
  std::span<const std::byte> bytes() const { return bytes_; }
  bool is_last_of_piece() const { return plane_ == planes_; }
  std::string where() const { return place(piece_, plane_ - 1); }
  size_t end() const { return at_; }

 private:
  Error cut_off(size_t wanted) const {
    return invalid("coded elements end at byte " + std::to_string(coded_.size()) + ", but " + place(piece_, plane_) +
                   " wants " + std::to_string(wanted) + " more at byte " + std::to_string(at_) +
                   "; they are damaged or were cut off");
  }

  std::span<const std::byte> coded_, bytes_;
  size_t left_, planes_, at_ = kHeaderBytes;
  size_t piece_ = 0, plane_ = 0;  // of the plane that comes next
};

}  // namespace

size_t most_lossless_bytes(size_t bytes, size_t element_bytes) {
  const size_t elements = bytes / element_bytes, pieces = (elements + kPieceElements - 1) / kPieceElements;
  return kHeaderBytes + bytes + pieces * element_bytes * kLengthBytes;
}

std::vector<std::byte> encode_lossless(std::span<const std::byte> elements, const LosslessOptions& options) {
  const size_t size = options.element_bytes;
  CHECK(is_element_size(size) && elements.size() % size == 0) << size << " bytes=" << elements.size();
  CHECK(options.level >= 1 && options.level <= 19) << options.level;
  std::vector<std::byte> coded;
  coded.reserve(most_lossless_bytes(elements.size(), size));
  append_number(coded, kMagic);
  append_number(coded, static_cast<uint32_t>(size));
  append_number(coded, static_cast<uint64_t>(elements.size() / size));
  const size_t all = elements.size() / size;
  std::vector<std::byte> plane(std::min(all, kPieceElements)), smaller(plane.size());
  const auto context = owned(ZSTD_createCCtx());
  for (size_t first = 0; first < all; first += kPieceElements) {
    const size_t count = std::min(kPieceElements, all - first);
    for (size_t k = 0; k < size; ++k) {
      split(elements.subspan(first * size, count * size), size, k, plane.data());
      // Room for less than the plane itself, so that an error says that a copy is no longer.
      const size_t length =
          ZSTD_compressCCtx(context.get(), smaller.data(), count - 1, plane.data(), count, options.level);
      const bool is_copy = ZSTD_isError(length) != 0;
      const std::vector<std::byte>& from = is_copy ? plane : smaller;
      append_number(coded, static_cast<uint32_t>(is_copy ? count : length));
      coded.insert(coded.end(), from.begin(), from.begin() + static_cast<ptrdiff_t>(is_copy ? count : length));
    }
  }
  return coded;
}

LosslessContent read_lossless(std::span<const std::byte> coded) {
  if (coded.size() < kHeaderBytes || std::memcmp(coded.data(), kMagic.data(), kMagic.size()) != 0) {
    throw invalid("coded elements begin with 'BNZ1' and have a header of 16 bytes; these " +
                  std::to_string(coded.size()) + " bytes do not");
  }
  const auto size = number_at<uint32_t>(coded, 4);
  const auto elements = number_at<uint64_t>(coded, 8);
  if (!is_element_size(size)) {
    throw invalid("coded elements have 2, 4 or 8 bytes each, not " + std::to_string(size));
  }
  if (elements > std::numeric_limits<size_t>::max() / size) {
    throw invalid("coded elements: " + std::to_string(elements) + " of them are more than there can be");
  }
  const LosslessContent content = {.element_bytes = size, .bytes = static_cast<size_t>(elements) * size};
  Planes planes(coded, content);
  while (planes.next()) {
  }
  if (planes.end() != coded.size()) {
    throw invalid("coded elements end at byte " + std::to_string(planes.end()) + ", and " +
                  std::to_string(coded.size() - planes.end()) + " bytes follow; they are damaged");
  }
  return content;
}

void decode_lossless(std::span<const std::byte> coded, std::span<std::byte> elements) {
  const LosslessContent content = read_lossless(coded);
  CHECK_EQ(content.bytes, elements.size());
  const size_t size = content.element_bytes;
  std::vector<std::byte> piece(std::min(elements.size(), kPieceElements * size));
  const auto context = owned(ZSTD_createDCtx());
  std::byte* to = elements.data();
  size_t filled = 0;
  for (Planes planes(coded, content); planes.next();) {
    const size_t count = planes.elements();
    const std::span<const std::byte> bytes = planes.bytes();
    if (bytes.size() == count) {
      std::memcpy(piece.data() + filled, bytes.data(), count);
    } else {
      const size_t length =
          ZSTD_decompressDCtx(context.get(), piece.data() + filled, count, bytes.data(), bytes.size());
      if (ZSTD_isError(length) != 0 || length != count) {
        throw invalid("coded elements: zstd cannot read " + planes.where() + ": " +
                      (ZSTD_isError(length) != 0 ? std::string(ZSTD_getErrorName(length))
                                                 : std::to_string(length) + " bytes for " + std::to_string(count)) +
                      "; they are damaged");
      }
    }
    filled += count;
    if (!planes.is_last_of_piece()) continue;
    join(to, size, count, piece.data());
    to += count * size, filled = 0;
  }
}

}  // namespace banyan::tensor
