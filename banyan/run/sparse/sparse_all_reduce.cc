#include "banyan/run/sparse/sparse_all_reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/hash.h"
#include "banyan/run/sparse/residual_undo.h"
#include "banyan/sparse/row_message.h"
#include "banyan/sparse/row_set.h"

namespace banyan::run {
namespace {

using sparse::MessageContext;
using sparse::MessageKind;
using sparse::RowList;
using sparse::RowMessage;

// Rows whose values follow one another.
struct PlacedRows {
  std::vector<uint32_t> rows;
  std::function<std::vector<float>()> values;  // made when they are placed, so that only some are there at a time
};

// The pieces have no row in common.
RowList joined(std::span<const PlacedRows> pieces, uint32_t rows, uint32_t width) {
  sparse::RowSet set(rows);
  for (const PlacedRows& piece : pieces) {
    for (const uint32_t row : piece.rows) set.insert(row);
  }
  RowList all;
  all.rows = set.seal();
  all.values.resize(all.rows.size() * width);
  for (const PlacedRows& piece : pieces) {
    const std::vector<float> values = piece.values();
    const float* from = values.data();
    for (const uint32_t row : piece.rows) {
      std::copy(from, from + width, all.values.data() + set.index_of(row) * width);
      from += width;
    }
  }
  return all;
}

std::string rank_name(uint32_t rank) { return "rank " + std::to_string(rank); }

std::byte* bytes_of(auto& values) { return reinterpret_cast<std::byte*>(values.data()); }
const std::byte* bytes_of(const auto& values) { return reinterpret_cast<const std::byte*>(values.data()); }

}  // namespace

// By permuted row, each once.
struct SparseAllReduce::Rows {
  std::vector<uint32_t> permuted, rows;
  std::vector<float> values;
  std::vector<size_t> first;  // of each shard, and the end
};

struct SparseAllReduce::Exchange {
  const SparseGradient& gradient;
  const Rows& own;
  ResidualUndo& undo;
  std::vector<SparseNotice> notices;
};

SparseAllReduce::SparseAllReduce(Communicator& communicator, const SparseTable& table)
    : communicator_(communicator),
      table_(table),
      whole_(std::max(1U, table.rows), 1, table.seed),
      shards_(std::max(1U, table.rows), communicator.size(), table.seed) {
  if (table.rows == 0 || table.width == 0) {
    throw invalid("a sparse table has " + std::to_string(table.rows) + " rows of " + std::to_string(table.width) +
                  " values; give 1 of each at least");
  }
}

MessageContext SparseAllReduce::context_of(uint32_t shard) const {
  return {.kind = MessageKind::contribution,
          .step = steps_,
          .tensor = table_.tensor,
          .shard = shard,
          .width = table_.width,
          .rows = shards_.rows_of(shard),
          .codec = table_.codec};
}

uint64_t SparseAllReduce::seed_of(uint32_t shard, MessageKind kind) const {
  return mix(mix(table_.seed, steps_), mix(communicator_.rank(), uint64_t{shard} << 2 | static_cast<uint64_t>(kind)));
}

void SparseAllReduce::expect_fits(const SparseGradient& gradient) const {
  if (gradient.values.size() != gradient.rows.size() * table_.width) {
    throw invalid(std::to_string(gradient.rows.size()) + " rows of " + std::to_string(table_.width) + " values need " +
                  std::to_string(gradient.rows.size() * table_.width) + " values, not " +
                  std::to_string(gradient.values.size()));
  }
  if (!gradient.residual.empty() && gradient.residual.size() != size_t{table_.rows} * table_.width) {
    throw invalid("the residual of a sparse table has " + std::to_string(gradient.residual.size()) +
                  " values; it needs " + std::to_string(size_t{table_.rows} * table_.width));
  }
}

void SparseAllReduce::refuse(std::chrono::milliseconds timeout) {
  try {
    exchange_notices(nullptr, timeout);
  } catch (...) {
    // Of the communicator, which stays in error, or another rank's. The caller has an older one.
  }
}

RowList SparseAllReduce::run(const SparseGradient& gradient) {
  Rows own;
  try {
    expect_fits(gradient);
    own = own_rows(gradient);
  } catch (const Error&) {
    refuse(gradient.timeout);
    throw;
  }
  std::vector<SparseNotice> notices = exchange_notices(&own, gradient.timeout);
  try {
    for (uint32_t rank = 0; rank < notices.size(); ++rank) expect_possible(notices[rank], table_, rank_name(rank));
    ResidualUndo undo(gradient.residual, table_.width);
    RowList sum = carry_out({gradient, own, undo, std::move(notices)});
    undo.commit(sum);
    ++steps_;
    return sum;
  } catch (...) {
    // Whoever waits for this rank's next call waits in vain.
    if (!communicator_.error()) {
      communicator_.abort("a sparse allreduce has failed: " + std::string(current_error().what()));
    }
    throw;
  }
}

SparseAllReduce::Rows SparseAllReduce::own_rows(const SparseGradient& gradient) const {
  const sparse::RowPartition parts = partition(whole_, gradient.rows);
  RowList list = rows_of_shard(parts, 0, gradient.values, table_.width);
  Rows own;
  for (const uint32_t y : list.rows) own.rows.push_back(whole_.row_at({.shard = 0, .position = y}));
  for (uint32_t shard = 0; shard <= shards_.shards(); ++shard) {
    own.first.push_back(static_cast<size_t>(
        std::lower_bound(list.rows.begin(), list.rows.end(), shards_.first_of(shard)) - list.rows.begin()));
  }
  own.permuted = std::move(list.rows);
  own.values = std::move(list.values);
  return own;
}

std::vector<uint32_t> SparseAllReduce::positions_in(const Rows& own, uint32_t shard) const {
  std::vector<uint32_t> positions;
  for (size_t i = own.first[shard]; i < own.first[shard + 1]; ++i) {
    positions.push_back(own.permuted[i] - shards_.first_of(shard));
  }
  return positions;
}

std::vector<SparseNotice> SparseAllReduce::exchange_notices(const Rows* own, std::chrono::milliseconds timeout) {
  const uint32_t ranks = communicator_.size();
  SparseNotice own_notice = notice_of(
      table_, steps_, own == nullptr ? std::span<const uint32_t>() : std::span<const uint32_t>(own->permuted));
  own_notice.is_refused = own == nullptr ? 1 : 0;
  std::vector<SparseNotice> sent(ranks, own_notice), notices(ranks);
  for (uint32_t rank = 0; rank < ranks && own != nullptr; ++rank) {
    sent[rank].bytes_for_you = message_bytes(context_of(rank), positions_in(*own, rank));
  }
  communicator_.run({.kind = OperationKind::all_to_all,
                     .type = element::DataType::uint8,
                     .send = bytes_of(std::as_const(sent)),
                     .recv = bytes_of(notices),
                     .count = sizeof(SparseNotice),
                     .timeout = timeout});
  for (uint32_t rank = 0; rank < ranks; ++rank) expect_alike(notices[rank], own_notice, rank_name(rank));
  for (uint32_t rank = 0; rank < ranks; ++rank) expect_taken(notices[rank], rank_name(rank));
  return notices;
}

RowList SparseAllReduce::carry_out(const Exchange& exchange) {
  SparseStep step = {.way = choose_way(table_, exchange.notices, last_)};
  for (const SparseNotice& notice : exchange.notices) step.rank_share += notice.entries;
  step.rank_share /= static_cast<double>(exchange.notices.size()) * table_.rows;
  step.bytes_sent = sizeof(SparseNotice) * (exchange.notices.size() - 1);
  RowList sum;
  if (step.rank_share > 0) {
    if (step.way == SparseWay::dense) sum = densely(exchange, step);
    if (step.way == SparseWay::gather) sum = by_gather(exchange, step);
    if (step.way == SparseWay::shards) sum = by_shards(exchange, step);
  }
  step.union_share = static_cast<double>(sum.rows.size()) / table_.rows;
  last_ = step;
  return sum;
}

// The message of the part of a rank's rows that `context` is about; what it loses is kept.
std::vector<std::byte> SparseAllReduce::message_of(const MessageContext& context, std::span<const uint32_t> positions,
                                                   std::span<const uint32_t> rows, std::span<const float> values,
                                                   ResidualUndo& undo) {
  std::vector<float> kept = undo.remember(rows);  // empty without a residual
  const sparse::Losses losses = {.before = kept.empty() ? nullptr : kept.data(),
                                 .lost = kept.empty() ? nullptr : kept.data()};
  std::vector<std::byte> message =
      write_row_message(context, positions, values, losses, seed_of(context.shard, context.kind));
  undo.write(rows, kept);
  return message;
}

RowList SparseAllReduce::by_gather(const Exchange& exchange, SparseStep& step) {
  const Rows& own = exchange.own;
  const std::vector<std::byte> message =
      message_of(context_of_all(), own.permuted, own.rows, own.values, exchange.undo);
  std::vector<size_t> counts;
  for (const SparseNotice& notice : exchange.notices) counts.push_back(notice.bytes_for_all);
  const std::vector<std::byte> all = all_gather(message, counts, exchange.gradient.timeout);
  step.bytes_sent += message.size() * (counts.size() - 1);

  std::vector<RowMessage> messages;
  std::span<const std::byte> rest = all;
  for (uint32_t rank = 0; rank < counts.size(); ++rank) {
    messages.push_back(RowMessage::read(rest.first(counts[rank]), context_of_all(), rank_name(rank)));
    rest = rest.subspan(counts[rank]);
  }
  RowList sum = sum_of(messages, table_.rows, table_.width);
  PlacedRows all_rows = {.rows = {}, .values = [&] { return std::move(sum.values); }};
  for (const uint32_t y : sum.rows) all_rows.rows.push_back(whole_.row_at({.shard = 0, .position = y}));
  return joined(std::span(&all_rows, 1), table_.rows, table_.width);
}

RowList SparseAllReduce::by_shards(const Exchange& exchange, SparseStep& step) {
  const auto ranks = static_cast<uint32_t>(exchange.notices.size());
  const RowList owned = sum_of_own_shard(exchange, step);
  const std::chrono::milliseconds timeout = exchange.gradient.timeout;

  MessageContext context = context_of(communicator_.rank());
  context.kind = MessageKind::sum;
  const std::vector<std::byte> answer =
      message_of(context, owned.rows, rows_at(communicator_.rank(), owned.rows), owned.values, exchange.undo);
  std::vector<uint64_t> lengths(ranks);
  const uint64_t length = answer.size();
  communicator_.all_gather<uint64_t>(std::span(&length, 1), lengths);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (lengths[rank] >= message_limits(context_of(rank), 0).least &&
        lengths[rank] <= message_limits(context_of(rank), shards_.rows_of(rank)).most)
      continue;
    throw Error(ErrorCode::invalid_input,
                "announces a message of " + std::to_string(lengths[rank]) + " bytes, which fits no sum of its rows",
                rank_name(rank));
  }
  const std::vector<std::byte> all = all_gather(answer, std::vector<size_t>(lengths.begin(), lengths.end()), timeout);
  step.bytes_sent += (answer.size() + sizeof length) * (ranks - 1);

  std::vector<PlacedRows> pieces;
  std::span<const std::byte> rest = all;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    context = context_of(rank);
    context.kind = MessageKind::sum;
    const RowMessage message = RowMessage::read(rest.first(lengths[rank]), context, rank_name(rank));
    pieces.push_back({.rows = rows_at(rank, message.positions()), .values = [=] { return message.values(); }});
    rest = rest.subspan(lengths[rank]);
  }
  return joined(pieces, table_.rows, table_.width);
}

// By position.
RowList SparseAllReduce::sum_of_own_shard(const Exchange& exchange, SparseStep& step) {
  const Rows& own = exchange.own;
  const auto ranks = static_cast<uint32_t>(exchange.notices.size());
  const std::span<const float> values = own.values;
  std::vector<std::byte> sent;
  std::vector<size_t> sent_counts, counts;
  for (uint32_t shard = 0; shard < ranks; ++shard) {
    const size_t begin = own.first[shard], end = own.first[shard + 1];
    const std::vector<std::byte> message =
        message_of(context_of(shard), positions_in(own, shard), std::span(own.rows).subspan(begin, end - begin),
                   values.subspan(begin * table_.width, (end - begin) * table_.width), exchange.undo);
    sent.insert(sent.end(), message.begin(), message.end());
    sent_counts.push_back(message.size());
    counts.push_back(exchange.notices[shard].bytes_for_you);
    if (shard != communicator_.rank()) step.bytes_sent += message.size();
  }
  std::vector<std::byte> received(std::accumulate(counts.begin(), counts.end(), size_t{0}));
  communicator_.run({.kind = OperationKind::all_to_all_v,
                     .type = element::DataType::uint8,
                     .send = sent.data(),
                     .recv = received.data(),
                     .send_counts = sent_counts,
                     .recv_counts = counts,
                     .timeout = exchange.gradient.timeout});
  const MessageContext due = context_of(communicator_.rank());
  std::vector<RowMessage> messages;
  std::span<const std::byte> rest = received;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    messages.push_back(RowMessage::read(rest.first(counts[rank]), due, rank_name(rank)));
    rest = rest.subspan(counts[rank]);
  }
  return sum_of(messages, due.rows, due.width);
}

RowList SparseAllReduce::densely(const Exchange& exchange, SparseStep& step) {
  const Rows& own = exchange.own;
  const size_t width = table_.width, count = size_t{table_.rows} * width;
  const std::optional<codec::Codec> codec = dense_codec(table_);
  const std::span<float> kept = exchange.gradient.residual;
  std::vector<float> all(count);
  std::vector<float> before = exchange.undo.remember(own.rows);
  sparse::RowSet used(table_.rows);
  for (size_t i = 0; i < own.rows.size(); ++i) {
    used.insert(own.rows[i]);
    float* const to = all.data() + own.rows[i] * width;
    std::copy_n(own.values.data() + i * width, width, to);
    if (!before.empty()) std::transform(to, to + width, before.data() + i * width, to, std::plus<>());
  }
  std::fill(before.begin(), before.end(), 0.0F);
  exchange.undo.write(own.rows, before);

  std::optional<Residual> lost;
  if (codec && !kept.empty()) lost.emplace(count);
  communicator_.run({.kind = OperationKind::all_reduce,
                     .type = element::DataType::float32,
                     .codec = codec,
                     .residual = lost ? &*lost : nullptr,
                     .send = bytes_of(std::as_const(all)),
                     .recv = bytes_of(all),
                     .count = count,
                     .timeout = exchange.gradient.timeout});
  communicator_.run({.kind = OperationKind::all_reduce,
                     .type = element::DataType::uint64,
                     .op = element::ReduceOp::bor,
                     .send = reinterpret_cast<const std::byte*>(used.words().data()),
                     .recv = reinterpret_cast<std::byte*>(used.words().data()),
                     .count = used.words().size(),
                     .timeout = exchange.gradient.timeout});
  if (lost) {
    const std::span<const float> values = lost->values();
    for (size_t i = 0; i < count; ++i) {
      if (std::isfinite(all[i])) kept[i] += values[i];
    }
  }
  const double bytes = static_cast<double>(count) * bytes_of_value(codec) + table_.rows / 8.0;
  step.bytes_sent += static_cast<uint64_t>(2 * bytes * (1 - 1.0 / communicator_.size()));

  RowList sum;
  sum.rows = used.seal();
  sum.values.resize(sum.rows.size() * width);
  for (size_t i = 0; i < sum.rows.size(); ++i) {
    std::copy_n(all.data() + sum.rows[i] * width, width, sum.values.data() + i * width);
  }
  return sum;
}

std::vector<uint32_t> SparseAllReduce::rows_at(uint32_t shard, std::span<const uint32_t> positions) const {
  std::vector<uint32_t> rows;
  rows.reserve(positions.size());
  for (const uint32_t position : positions) rows.push_back(shards_.row_at({.shard = shard, .position = position}));
  return rows;
}

std::vector<std::byte> SparseAllReduce::all_gather(std::span<const std::byte> own, std::span<const size_t> counts,
                                                   std::chrono::milliseconds timeout) {
  std::vector<std::byte> all(std::accumulate(counts.begin(), counts.end(), size_t{0}));
  communicator_.run({.kind = OperationKind::all_gather_v,
                     .type = element::DataType::uint8,
                     .send = own.data(),
                     .recv = all.data(),
                     .recv_counts = counts,
                     .timeout = timeout});
  return all;
}

}  // namespace banyan::run
