// Executions with a codec: what their slices are on the wire.
#include <cstring>
#include <string>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/engine/execution.h"

namespace banyan::run {

size_t Execution::most_coded_bytes(size_t plain_bytes) const {
  return command_.codec->most_bytes(command_.task.type, plain_bytes / prepared_.element_bytes);
}

// Plain slices have exactly the bytes that the plan says, coded ones at most those that the codec says.
void Execution::expect_length(const Port& port, const MessageHeader& header, size_t plain_bytes) const {
  const bool is_coded = command_.codec != nullptr && plain_bytes > 0;
  const uint64_t most = is_coded ? most_coded_bytes(plain_bytes) : plain_bytes;
  if (header.length == most || (is_coded && header.length < most)) return;
  throw Error(ErrorCode::mismatch, "rank " + std::to_string(port.peer) + " sends a slice of " +
                                       std::to_string(header.length) + " bytes where rank " +
                                       std::to_string(command_.plan->rank) + " expects " +
                                       (is_coded ? "at most " : "") + std::to_string(most) +
                                       "; all ranks must be set to the same slices and codec");
}

const std::byte* Execution::residual_at(const RoleState& state, uint64_t slice) const {
  return command_.residual.data() + (*state.role->input_at + begin_of(slice)) * prepared_.element_bytes;
}

std::byte* Execution::lost_at(const RoleState& state, uint64_t slice) const {
  return command_.lost.data() + (*state.role->input_at + begin_of(slice)) * prepared_.element_bytes;
}

// `plain`: the contribution of this rank and those below it, or the sum of all.
Execution::CodedSlice Execution::encode(const RoleState& state, uint64_t slice, const std::byte* plain) {
  const size_t plain_bytes = bytes_of(state, slice), most = most_coded_bytes(plain_bytes);
  SliceCodec::Slice task = {.type = command_.task.type,
                            .plain = {plain, plain_bytes},
                            .chunk_at = state.role->input_at.value_or(0),
                            .begin = begin_of(slice)};
  // The codec adds what was lost before, and says what it loses now.
  if (has_residual(state)) {
    task.residual = residual_at(state, slice);
    task.lost = lost_at(state, slice);
  }
  CodedSlice coded = {.block = pool_.take(most), .taken = most};
  coded.size = command_.codec->encode(task, {coded.block, most});
  CHECK(coded.size <= most) << "a codec wrote " << coded.size << " bytes where it said at most " << most;
  return coded;
}

void Execution::decode(std::span<const std::byte> coded, std::span<std::byte> plain, float factor) {
  command_.codec->decode(command_.task.type, coded, plain, factor);
}

// Sums are what lossy codecs carry; who decodes the result divides them.
float Execution::result_factor(const RoleState& state) const {
  const bool reduces = state.role->in_parent || !state.role->in_children.empty();
  const bool divides = reduces && command_.task.op == element::ReduceOp::avg && command_.codec->is_lossy();
  return divides ? 1 / static_cast<float>(command_.task.divisor) : 1;
}

void Execution::coded_slice_came(Port& port, const Arrival& arrival, RoleState& state) {
  const uint64_t slice = arrival.received;
  const size_t bytes = bytes_of(state, slice);
  const std::span<const std::byte> coded = {port.coded_in.block, port.coded_in.size};
  // A contribution is decoded to be added; a result is decoded where it has a place here, and goes on as it came.
  if (arrival.is_contribution) {
    decode(coded, {take_slot(state, arrival.slots, slice), bytes}, 1);
  } else if (state.role->output_at || state.held.size > 0) {
    decode(coded, {place_of_result(state, slice), bytes}, result_factor(state));
  }
  if (!arrival.is_contribution && state.coded.size > 0) {
    coded_result(state, slice) = std::exchange(port.coded_in, {});
  } else {
    give_back(port.coded_in);
  }
}

// Of a root that spreads: the next slice of the result, as all will have it.
void Execution::code_result(RoleState& state) {
  const Role& role = *state.role;
  const uint64_t slice = state.final_slices;
  const size_t bytes = bytes_of(state, slice);
  // 1. The sum of all, in the output or in a place of the pool.
  std::byte* const output = role.output_at ? place_of_result(state, slice) : nullptr;
  std::byte* const scratch = role.in_children.empty() || output != nullptr ? nullptr : pool_.take(bytes);
  const std::byte* sum = input_at(state, slice);
  if (!role.in_children.empty()) {
    std::byte* const place = output != nullptr ? output : scratch;
    const uint32_t last = state.first_child + static_cast<uint32_t>(role.in_children.size()) - 1;
    reduce_piece({.arrival = last, .target = place}, 0, slot(arrivals_[last].slots, slice),
                 bytes / prepared_.element_bytes);
    sum = place;
  }
  // 2. It is encoded once, for all.
  CodedSlice& coded = coded_result(state, slice);
  coded = encode(state, slice, sum);
  // 3. The root takes what the others will decode, so that all have the same.
  if (output != nullptr && command_.codec->is_lossy()) {
    decode({coded.block, coded.size}, {output, bytes}, result_factor(state));
  } else if (output != nullptr && output != sum) {
    std::memcpy(output, sum, bytes);
  }
  if (scratch != nullptr) pool_.give_back(scratch, bytes);
}

void Execution::give_back(CodedSlice& coded) {
  if (coded.block != nullptr) pool_.give_back(coded.block, coded.taken);
  coded = {};
}

}  // namespace banyan::run
