#include "banyan/codec/codec.h"

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/codec/codec_kernels.h"
#include "banyan/element/isa.h"

namespace banyan::codec {
namespace {

constexpr std::string_view kStochastic = ":stochastic";

const CodeRow& row_of(const Codec& codec) {
  const auto index = static_cast<size_t>(codec.code);
  CHECK(index < kValueCodes) << index;
  return kCodeRows[index];
}

std::string known_names() {
  std::string known;
  for (const CodeRow& row : kCodeRows) {
    known += (known.empty() ? "" : ", ") + std::string(row.name);
    if (row.rounds) known += ", " + std::string(row.name) + std::string(kStochastic);
  }
  return known;
}

}  // namespace

const internal::Kernels& internal::active_kernels() {
#ifdef BANYAN_X86_KERNELS
  const element::Isa isa = element::active_isa();
  if (isa == element::Isa::avx512) return internal::avx512_kernels();
  if (isa == element::Isa::avx2) return internal::avx2_kernels();
#endif
  return internal::portable_kernels();
}

CodecTraits traits_of(const Codec& codec) {
  const CodeRow& row = row_of(codec);
  return {.block_bytes = row.block_bytes,
          .is_unbiased = row.rounds && codec.is_stochastic,
          .has_zero = row.has_zero,
          .relative_loss = row.relative_loss,
          .needs_residual = codec.is_stochastic ? row.needs_residual_stochastic : row.needs_residual};
}

size_t coded_bytes(const Codec& codec, size_t count) { return blocks_of(count) * row_of(codec).block_bytes; }

Codec parse_codec(std::string_view text) {
  const bool is_stochastic = text.ends_with(kStochastic);
  const std::string_view name = is_stochastic ? text.substr(0, text.size() - kStochastic.size()) : text;
  NearestName nearest(text);
  for (size_t i = 0; i < kValueCodes; ++i) {
    const CodeRow& row = kCodeRows[i];
    // All names are collected for the hint, whichever fits.
    nearest.offer(row.name);
    if (row.rounds) nearest.offer(std::string(row.name) + std::string(kStochastic));
    if (name != row.name && name != row.other_names[0] && name != row.other_names[1]) continue;
    if (is_stochastic && !row.rounds) {
      throw invalid("'" + std::string(row.name) + "' does not round stochastically; say '" + std::string(row.name) +
                    "'");
    }
    return {.code = static_cast<ValueCode>(i), .is_stochastic = is_stochastic};
  }
  throw invalid("unknown codec " + in_quotes(text) + nearest.hint() + "; known are " + known_names());
}

std::string to_string(const Codec& codec) {
  return std::string(row_of(codec).name) + (codec.is_stochastic ? std::string(kStochastic) : "");
}

void encode(const EncodeTask& task, std::byte* coded) {
  const CodeRow& row = row_of(task.codec);
  CHECK(!task.codec.is_stochastic || (row.rounds && task.randomness.first % kBlockValues == 0))
      << to_string(task.codec) << " first=" << task.randomness.first;
  internal::active_kernels().encode[static_cast<size_t>(task.codec.code)][task.codec.is_stochastic ? 1 : 0](task,
                                                                                                            coded);
}

void decode(const Codec& codec, const std::byte* coded, float* values, size_t count, float factor) {
  row_of(codec);
  internal::active_kernels().decode[static_cast<size_t>(codec.code)](
      {.coded = coded, .values = values, .count = count, .factor = factor, .adds = false});
}

void decode_add(const Codec& codec, const std::byte* coded, float* sums, size_t count, float factor) {
  row_of(codec);
  internal::active_kernels().decode[static_cast<size_t>(codec.code)](
      {.coded = coded, .values = sums, .count = count, .factor = factor, .adds = true});
}

}  // namespace banyan::codec
