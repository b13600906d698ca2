#include "banyan/sparse/row_message.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/sparse/row_set.h"

namespace banyan::sparse {
namespace {

static_assert(std::endian::native == std::endian::little, "messages are little-endian");

constexpr uint32_t kMagic = 0x31575242;  // "BRW1"

enum Form : uint8_t { kGaps, kWords, kBitmap };

struct Header {
  uint64_t digest;
  uint32_t magic;
  uint8_t kind, form, code, zero;
  uint64_t step;
  uint32_t tensor, shard, width, entries;
  uint64_t position_bytes;
};
static_assert(sizeof(Header) == kMessageHeaderBytes && std::has_unique_object_representations_v<Header>);

uint64_t digest_of(std::span<const std::byte> message) {
  return XXH3_64bits(message.data() + sizeof(uint64_t), message.size() - sizeof(uint64_t));
}

uint8_t code_of(const std::optional<codec::Codec>& codec) {
  return static_cast<uint8_t>(codec ? 1 + static_cast<int>(codec->code) : 0);
}

size_t value_bytes(const std::optional<codec::Codec>& codec, size_t count) {
  return codec ? codec::coded_bytes(*codec, count) : count * sizeof(float);
}

size_t bytes_of_gap(uint32_t gap) { return (static_cast<size_t>(std::bit_width(gap | 1)) + 6) / 7; }

size_t bytes_of_bitmap(uint32_t rows) { return (size_t{rows} + 7) / 8; }

// The first position, and then how many positions lie between two.
template <typename Visit>
void for_each_gap(std::span<const uint32_t> positions, Visit visit) {
  uint32_t next = 0;
  for (const uint32_t position : positions) {
    visit(position - next);
    next = position + 1;
  }
}

void write_positions(Form form, std::span<const uint32_t> positions, std::byte* to) {
  if (form == kWords) {
    if (!positions.empty()) std::memcpy(to, positions.data(), positions.size_bytes());
  } else if (form == kBitmap) {
    for (const uint32_t position : positions) to[position / 8] |= std::byte{1} << position % 8;
  } else {
    for_each_gap(positions, [&](uint32_t gap) {
      // Seven bits a byte, the low ones first; the highest bit says that more follow.
      for (; gap >= 128; gap >>= 7) *to++ = static_cast<std::byte>(gap | 128);
      *to++ = static_cast<std::byte>(gap);
    });
  }
}

// Positions as a message holds them.
struct WrittenPositions {
  uint8_t form;
  uint32_t entries;
  std::span<const std::byte> bytes;
};

// Visits all positions. False where they are not good: not as many, not ascending, not below `rows`.
template <typename Visit>
bool visit_positions(WrittenPositions written, uint32_t rows, Visit visit) {
  const auto [form, entries, bytes] = written;
  uint64_t next = 0;
  size_t at = 0;
  // Bits of a bitmap ascend by themselves; only their number and the end of the shard can be wrong.
  if (form == kBitmap) {
    uint32_t left = entries;
    for (; at < bytes.size(); ++at) {
      for (auto bits = static_cast<uint32_t>(bytes[at]); bits != 0; bits &= bits - 1) {
        const uint64_t position = at * 8 + static_cast<unsigned>(std::countr_zero(bits));
        if (position >= rows || left-- == 0) return false;
        visit(static_cast<uint32_t>(position));
      }
    }
    return left == 0;
  }
  for (uint32_t entry = 0; entry < entries; ++entry) {
    uint64_t position = 0;
    if (form == kWords) {
      // Words need not be aligned in a message.
      uint32_t word = 0;
      if (bytes.size() - at < sizeof word) return false;
      std::memcpy(&word, bytes.data() + at, sizeof word);
      at += sizeof word;
      if (word < next) return false;
      position = word;
    } else {
      uint64_t gap = 0;
      for (unsigned shift = 0;; shift += 7) {
        // A gap has at most five bytes of seven bits: a longer one is no number of 32 bits.
        if (at == bytes.size() || shift > 28) return false;
        const auto byte = static_cast<uint64_t>(bytes[at++]);
        gap |= (byte & 127) << shift;
        if (byte < 128) break;
      }
      position = next + gap;
    }
    if (position >= rows) return false;
    visit(static_cast<uint32_t>(position));
    next = position + 1;
  }
  return at == bytes.size();
}

// Which form is the shortest of all, and its bytes.
struct ChosenForm {
  Form form;
  size_t bytes;
};
ChosenForm shortest_form(const MessageContext& context, std::span<const uint32_t> positions) {
  size_t gap_bytes = 0;
  for_each_gap(positions, [&](uint32_t gap) { gap_bytes += bytes_of_gap(gap); });
  // All three forms are counted before any is written.
  const size_t bytes[] = {gap_bytes, positions.size_bytes(), bytes_of_bitmap(context.rows)};
  const auto form = std::min_element(bytes, bytes + 3) - bytes;
  return {static_cast<Form>(form), bytes[form]};
}

void write_floats(std::span<const float> values, Losses losses, std::byte* to) {
  for (size_t i = 0; i < values.size(); ++i) {
    const float before = losses.before == nullptr ? 0 : losses.before[i];
    const float sum = losses.before == nullptr ? values[i] : values[i] + before;
    std::memcpy(to + i * sizeof sum, &sum, sizeof sum);
    // Nothing is lost in float32. If the sum is not finite, `before` stays behind, unless it is not finite itself.
    if (losses.lost != nullptr) losses.lost[i] = std::isfinite(sum) || !std::isfinite(before) ? 0 : before;
  }
}

}  // namespace

MessageLimits message_limits(const MessageContext& context, uint64_t entries) {
  const auto count = static_cast<size_t>(entries * context.width);
  // A position takes one byte at least and four at most, and a bitmap may be shorter than all of them.
  const uint64_t least = kMessageHeaderBytes + value_bytes(context.codec, count);
  return {.least = least + std::min<uint64_t>(entries, bytes_of_bitmap(context.rows)),
          .most = least + std::min<uint64_t>(entries * sizeof(uint32_t), bytes_of_bitmap(context.rows))};
}

size_t message_bytes(const MessageContext& context, std::span<const uint32_t> positions) {
  return kMessageHeaderBytes + shortest_form(context, positions).bytes +
         value_bytes(context.codec, positions.size() * context.width);
}

std::vector<std::byte> write_row_message(const MessageContext& context, std::span<const uint32_t> positions,
                                         std::span<const float> values, Losses losses, uint64_t seed) {
  const size_t count = positions.size() * context.width;
  CHECK_EQ(values.size(), count);
  CHECK(positions.empty() || (positions.back() < context.rows && context.kind != MessageKind::dense));
  // The header is written first, with a digest of 0; the digest comes last, over all behind it.
  const ChosenForm form = shortest_form(context, positions);
  Header header = {.digest = 0,
                   .magic = kMagic,
                   .kind = static_cast<uint8_t>(context.kind),
                   .form = form.form,
                   .code = code_of(context.codec),
                   .zero = 0,
                   .step = context.step,
                   .tensor = context.tensor,
                   .shard = context.shard,
                   .width = context.width,
                   .entries = static_cast<uint32_t>(positions.size()),
                   .position_bytes = form.bytes};
  std::vector<std::byte> message(sizeof header + form.bytes + value_bytes(context.codec, count));
  std::memcpy(message.data(), &header, sizeof header);
  write_positions(form.form, positions, message.data() + sizeof header);
  std::byte* const coded = message.data() + sizeof header + form.bytes;
  if (context.codec) {
    codec::encode({.codec = *context.codec,
                   .values = values.data(),
                   .residual = losses.before,
                   .lost = losses.lost,
                   .count = count,
                   .randomness = {.seed = seed, .first = 0}},
                  coded);
  } else {
    write_floats(values, losses, coded);
  }
  header.digest = digest_of(message);
  std::memcpy(message.data(), &header.digest, sizeof header.digest);
  return message;
}

RowMessage RowMessage::read(std::span<const std::byte> bytes, const MessageContext& context,
                            const std::string& sender) {
  const auto bad = [&](const std::string& what) {
    return Error(ErrorCode::invalid_input, "a message of rows " + what + "; it was damaged or is none", sender);
  };
  Header header = {};
  if (bytes.size() < sizeof header) throw bad("has only " + std::to_string(bytes.size()) + " bytes");
  std::memcpy(&header, bytes.data(), sizeof header);
  // 1. Damage: nothing else of the header is believed before the digest is right.
  if (header.magic != kMagic) throw bad("does not begin as one");
  if (header.digest != digest_of(bytes)) throw bad("has another digest than its bytes");
  const auto expect = [&](const char* what, uint64_t found, uint64_t due) {
    if (found == due) return;
    throw Error(ErrorCode::mismatch,
                "a message of rows has " + std::string(what) + " " + std::to_string(found) + ", due is " +
                    std::to_string(due) + "; all ranks must call with equal tensors and codecs in equal order",
                sender);
  };
  // 2. A good message that is not the one that is due: ranks have called differently.
  expect("step", header.step, context.step);
  expect("tensor", header.tensor, context.tensor);
  expect("shard", header.shard, context.shard);
  expect("width", header.width, context.width);
  expect("code of values", header.code, code_of(context.codec));
  const bool is_dense = header.kind == static_cast<uint8_t>(MessageKind::dense);
  if (!is_dense) expect("kind", header.kind, static_cast<uint8_t>(context.kind));
  // 3. Lengths and counts, before any memory is taken for them.
  if (header.zero != 0 || header.form > kBitmap) throw bad("has an unknown form of positions");
  if (header.entries > (is_dense ? 0 : context.rows)) {
    throw bad("has " + std::to_string(header.entries) + " rows of a shard of " + std::to_string(context.rows));
  }
  // No overflow: entries and width are below 2^32, and the bytes are there.
  const auto body = bytes.subspan(sizeof header);
  const unsigned __int128 count = static_cast<unsigned __int128>(header.entries) * header.width;
  if (header.position_bytes > body.size() || count > body.size() * 8 ||
      value_bytes(context.codec, static_cast<size_t>(count)) != body.size() - header.position_bytes) {
    throw bad("has " + std::to_string(bytes.size()) + " bytes, which its header does not tell");
  }
  // 4. The positions: as many as the header says, ascending, within the shard.
  const auto positions = body.first(header.position_bytes);
  if ((header.form == kBitmap && positions.size() != bytes_of_bitmap(context.rows)) ||
      !visit_positions({header.form, header.entries, positions}, context.rows, [](uint32_t) {})) {
    throw bad("has positions that do not ascend within its shard");
  }
  // It borrows the bytes: nothing is decoded before somebody asks.
  RowMessage message;
  message.kind_ = static_cast<MessageKind>(header.kind);
  message.form_ = header.form;
  message.entries_ = header.entries;
  message.width_ = header.width;
  message.codec_ = context.codec;
  message.positions_ = positions;
  message.values_ = body.subspan(header.position_bytes);
  return message;
}

std::vector<uint32_t> RowMessage::positions() const {
  std::vector<uint32_t> positions;
  positions.reserve(entries_);
  visit_positions({form_, entries_, positions_}, UINT32_MAX, [&](uint32_t position) { positions.push_back(position); });
  return positions;
}

std::vector<float> RowMessage::values() const {
  std::vector<float> values(size_t{entries_} * width_);
  if (codec_) {
    codec::decode(*codec_, values_.data(), values.data(), values.size());
  } else if (!values.empty()) {
    std::memcpy(values.data(), values_.data(), values_.size());
  }
  return values;
}

RowList sum_of(std::span<const RowMessage> messages, uint32_t rows, uint32_t width) {
  // All rows that some message has, by a bitmap of the shard.
  RowSet used(rows);
  std::vector<std::vector<uint32_t>> positions;
  for (const RowMessage& message : messages) {
    CHECK(message.kind() == MessageKind::contribution && message.width() == width) << message.width();
    positions.push_back(message.positions());
    for (const uint32_t position : positions.back()) used.insert(position);
  }
  RowList result;
  // Message by message, in the order given: so every value is that of a dense sum in this order, bit for bit.
  result.rows = used.seal();
  result.values.resize(result.rows.size() * width);
  for (size_t m = 0; m < messages.size(); ++m) {
    const std::vector<float> values = messages[m].values();
    const float* from = values.data();
    for (const uint32_t position : positions[m]) {
      float* to = result.values.data() + used.index_of(position) * width;
      for (size_t j = 0; j < width; ++j) to[j] += from[j];
      from += width;
    }
  }
  return result;
}

}  // namespace banyan::sparse
