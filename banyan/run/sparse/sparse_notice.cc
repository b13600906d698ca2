#include "banyan/run/sparse/sparse_notice.h"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/hash.h"
#include "banyan/codec/wire_type.h"

namespace banyan::run {
namespace {

static_assert(std::has_unique_object_representations_v<SparseNotice>);

constexpr std::array<std::string_view, 4> kSparseWays = {"automatic", "dense", "gather", "shards"};

uint64_t digest_of(const SparseTable& table) {
  const uint64_t codec = table.codec ? 1 + codec::WireType(*table.codec).number() : 0;
  const uint64_t link =
      mix(std::bit_cast<uint64_t>(table.link.bytes_per_second), std::bit_cast<uint64_t>(table.link.latency_seconds));
  return mix(mix(table.seed, link), codec << 8 | static_cast<uint64_t>(table.way));
}

}  // namespace

std::string_view to_string(SparseWay way) { return kSparseWays[static_cast<size_t>(way)]; }

sparse::MessageContext whole_context(const SparseTable& table, uint64_t step) {
  return {.kind = sparse::MessageKind::contribution,
          .step = step,
          .tensor = table.tensor,
          .shard = 0,
          .width = table.width,
          .rows = table.rows,
          .codec = table.codec};
}

SparseNotice notice_of(const SparseTable& table, uint64_t step, std::span<const uint32_t> permuted) {
  return {.table = digest_of(table),
          .step = step,
          .rows = table.rows,
          .width = table.width,
          .tensor = table.tensor,
          .entries = static_cast<uint32_t>(permuted.size()),
          .bytes_for_you = 0,
          .bytes_for_all = message_bytes(whole_context(table, step), permuted)};
}

void expect_alike(const SparseNotice& notice, const SparseNotice& own, const std::string& sender) {
  const auto expect = [&](const char* what, uint64_t theirs, uint64_t ours) {
    if (theirs == ours) return;
    throw Error(ErrorCode::mismatch,
                "calls a sparse allreduce with " + std::string(what) + " " + std::to_string(theirs) + ", this rank " +
                    std::to_string(ours) + "; all ranks must make equal tables and call them in equal order",
                sender);
  };
  expect("tensor", notice.tensor, own.tensor);
  expect("rows", notice.rows, own.rows);
  expect("width", notice.width, own.width);
  expect("step", notice.step, own.step);
  if (notice.table == own.table) return;
  throw Error(ErrorCode::mismatch,
              "calls a sparse allreduce of a table with another codec, way, seed or link than this rank; all ranks "
              "must make equal tables",
              sender);
}

void expect_taken(const SparseNotice& notice, const std::string& sender) {
  if (notice.is_refused == 0) return;
  throw Error(ErrorCode::mismatch,
              "has refused the arguments of its sparse allreduce, as its own error says; nothing was added up, and the "
              "next call is that of all ranks",
              sender);
}

void expect_possible(const SparseNotice& notice, const SparseTable& table, const std::string& sender) {
  const sparse::MessageLimits all = message_limits(whole_context(table, 0), std::min(notice.entries, table.rows));
  if (notice.entries <= table.rows && notice.bytes_for_all >= all.least && notice.bytes_for_all <= all.most &&
      notice.bytes_for_you >= sparse::kMessageHeaderBytes && notice.bytes_for_you <= all.most)
    return;
  throw Error(ErrorCode::invalid_input,
              "announces " + std::to_string(notice.entries) + " rows of a sparse table in messages of " +
                  std::to_string(notice.bytes_for_you) + " and " + std::to_string(notice.bytes_for_all) +
                  " bytes, which do not fit",
              sender);
}

SparseWay choose_way(const SparseTable& table, std::span<const SparseNotice> notices, const SparseStep& last) {
  if (table.way != SparseWay::automatic) return table.way;
  double entries = 0, bytes = 0;
  for (const SparseNotice& notice : notices) {
    entries += notice.entries;
    bytes += static_cast<double>(notice.bytes_for_all) - sparse::kMessageHeaderBytes;
  }
  if (entries == 0) return SparseWay::gather;
  const auto ranks = static_cast<double>(notices.size());
  const double share = entries / ranks / table.rows;
  const double densified = last.rank_share > 0 ? last.union_share / last.rank_share : ranks;
  const double value_bytes = bytes_of_value(table.codec);
  const sparse::SparseShape shape = {.values = double{static_cast<double>(table.rows)} * table.width,
                                     .rank_share = share,
                                     .union_share = std::min(1.0, share * densified),
                                     .width = static_cast<double>(table.width),
                                     .ranks = ranks,
                                     .value_bytes = value_bytes,
                                     .dense_value_bytes = bytes_of_value(dense_codec(table)),
                                     .position_bytes = std::max(0.0, bytes / entries - value_bytes * table.width)};
  // Each step of the law is two calls here.
  sparse::LinkCost link = table.link;
  link.latency_seconds *= 2;
  SparseWay best = SparseWay::dense;
  double least = seconds(sparse::Way::dense, shape, link);
  for (const auto& [way, law] : {std::pair(SparseWay::gather, sparse::Way::gather_rows),
                                 std::pair(SparseWay::shards, sparse::Way::permuted_shards)}) {
    const double expected = seconds(law, shape, link);
    if (expected >= least) continue;
    least = expected;
    best = way;
  }
  return best;
}

std::optional<codec::Codec> dense_codec(const SparseTable& table) {
  return table.codec && !traits_of(*table.codec).has_zero ? std::nullopt : table.codec;
}

double bytes_of_value(const std::optional<codec::Codec>& codec) {
  if (!codec) return sizeof(float);
  return static_cast<double>(codec::traits_of(*codec).block_bytes) / codec::kBlockValues;
}

}  // namespace banyan::run
