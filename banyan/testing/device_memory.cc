#include "banyan/testing/device_memory.h"

#include <algorithm>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::testing {
namespace {

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): neighbouring arguments give unrelated values.
uint64_t scrambled(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

bool defines_output(const MemoryShape& shape, uint32_t rank) {
  return shape.kind != CollectiveKind::reduce || rank == shape.root;
}

bool defines_input(const MemoryShape& shape, uint32_t rank) {
  return shape.kind != CollectiveKind::broadcast || rank == shape.root;
}

int64_t sum_at(const RankArrays& inputs, size_t element) {
  uint64_t sum = 0;
  for (const auto& input : inputs) sum += static_cast<uint64_t>(input[element]);
  return static_cast<int64_t>(sum);
}

}  // namespace

RankArrays inputs_for(const MemoryShape& shape, uint64_t seed) {
  RankArrays inputs(shape.ranks);
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    const size_t elements = size_t{shape.input_chunks()} * shape.chunk_elements;
    for (size_t i = 0; i < elements; ++i) {
      inputs[rank].push_back(static_cast<int64_t>(scrambled(scrambled(scrambled(seed) + rank) + i)));
    }
  }
  return inputs;
}

RankArrays outputs_for(const MemoryShape& shape, const RankArrays& inputs) {
  RankArrays outputs(shape.ranks);
  const size_t elements = size_t{shape.output_chunks()} * shape.chunk_elements;
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    if (!defines_output(shape, rank)) continue;
    for (size_t i = 0; i < elements; ++i) {
      switch (shape.kind) {
        case CollectiveKind::all_gather: {
          const size_t shard = inputs[0].size();
          outputs[rank].push_back(inputs[i / shard][i % shard]);
          break;
        }
        case CollectiveKind::reduce_scatter:
          outputs[rank].push_back(sum_at(inputs, rank * elements + i));
          break;
        case CollectiveKind::all_reduce:
        case CollectiveKind::reduce:
          outputs[rank].push_back(sum_at(inputs, i));
          break;
        case CollectiveKind::broadcast:
          outputs[rank].push_back(inputs[shape.root][i]);
          break;
        case CollectiveKind::all_to_all: {
          const size_t block = elements / shape.ranks;
          outputs[rank].push_back(inputs[i / block][rank * block + i % block]);
          break;
        }
        case CollectiveKind::gather:
        case CollectiveKind::scatter:
        case CollectiveKind::barrier:
          CHECK(false) << "not interpreted: " << to_string(shape.kind);
      }
    }
  }
  return outputs;
}

void expect_outputs(const MemoryShape& shape, const RankArrays& outputs, const RankArrays& expected) {
  CHECK_EQ(outputs.size(), expected.size());
  for (size_t rank = 0; rank < expected.size(); ++rank) {
    CHECK_EQ(outputs[rank].size(), expected[rank].size());
    const auto [got, want] = std::mismatch(outputs[rank].begin(), outputs[rank].end(), expected[rank].begin());
    if (got == outputs[rank].end()) continue;
    const auto element = static_cast<size_t>(got - outputs[rank].begin());
    throw Error(ErrorCode::mismatch,
                "gpu " + std::to_string(rank) + " output chunk " + std::to_string(element / shape.chunk_elements) +
                    " element " + std::to_string(element % shape.chunk_elements) + " is " + std::to_string(*got) +
                    ", not " + std::to_string(*want) + " as the " + std::string(to_string(shape.kind)) + " promises");
  }
}

DeviceMemory::DeviceMemory(const MemoryShape& shape, const RankArrays& inputs,
                           std::function<std::string(uint32_t)> step_name, std::string mend)
    : shape_(shape), step_name_(step_name), races_(0, {}) {
  CHECK(shape.slices >= 1 && shape.slices <= shape.chunk_elements);
  CHECK(shape.ranks == inputs.size() && shape.ranks == shape.scratch_chunks.size());
  uint32_t base = 0;
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    Region region{.base = base};
    if (!shape.in_place) {
      region.output = shape.input_chunks();
      region.scratch = region.output + shape.output_chunks();
    } else {
      if (shape.kind == CollectiveKind::all_gather) region.input = rank * shape.input_chunks();
      if (shape.kind == CollectiveKind::reduce_scatter) region.output = rank * shape.output_chunks();
      region.scratch = std::max(shape.input_chunks(), shape.output_chunks());
    }
    region.chunks = region.scratch + shape.scratch_chunks[rank];
    base += region.chunks;
    regions_.push_back(region);
  }
  values_.resize(size_t{base} * shape.chunk_elements);
  writable_.resize(base);
  written_.resize(size_t{base} * shape.slices);
  races_ = RaceDetector(written_.size(), {.step = std::move(step_name),
                                          .place = [this](uint32_t place) { return name_of(place); },
                                          .mend = std::move(mend)});
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) lay_out(rank, inputs);
}

void DeviceMemory::lay_out(uint32_t rank, const RankArrays& inputs) {
  for (uint32_t chunk = 0; chunk < shape_.input_chunks() && defines_input(shape_, rank); ++chunk) {
    const uint32_t at = chunk_at(rank, BufferKind::input, chunk);
    for (uint32_t i = 0; i < shape_.chunk_elements; ++i) {
      values_[size_t{at} * shape_.chunk_elements + i] =
          static_cast<uint64_t>(inputs[rank][size_t{chunk} * shape_.chunk_elements + i]);
    }
    for (uint32_t slice = 0; slice < shape_.slices; ++slice) written_[size_t{at} * shape_.slices + slice] = true;
  }
  for (uint32_t chunk = 0; chunk < shape_.output_chunks() && defines_output(shape_, rank); ++chunk) {
    writable_[chunk_at(rank, BufferKind::output, chunk)] = true;
  }
  for (uint32_t chunk = 0; chunk < shape_.scratch_chunks[rank]; ++chunk) {
    writable_[chunk_at(rank, BufferKind::scratch, chunk)] = true;
  }
}

uint32_t DeviceMemory::chunk_at(uint32_t rank, BufferKind buffer, uint32_t chunk) const {
  const Region& region = regions_[rank];
  const bool input = buffer == BufferKind::input, output = buffer == BufferKind::output;
  const uint32_t count =
      input ? shape_.input_chunks() : (output ? shape_.output_chunks() : shape_.scratch_chunks[rank]);
  CHECK(chunk < count) << "rank=" << rank << " chunk=" << chunk << " of " << count;
  return region.base + (input ? region.input : (output ? region.output : region.scratch)) + chunk;
}

std::string DeviceMemory::name_of(uint32_t place) const {
  const uint32_t chunk = place / shape_.slices;
  uint32_t rank = 0;
  while (chunk >= regions_[rank].base + regions_[rank].chunks) ++rank;
  const Region& region = regions_[rank];
  const uint32_t within = chunk - region.base;
  std::string text = "gpu " + std::to_string(rank) + " ";
  if (within >= region.scratch) {
    text += "s[" + std::to_string(within - region.scratch);
  } else if (within >= region.output && within < region.output + shape_.output_chunks()) {
    text += "o[" + std::to_string(within - region.output);
  } else {
    text += "i[" + std::to_string(within - region.input);
  }
  return text + "]" + (shape_.slices > 1 ? " loop " + std::to_string(place % shape_.slices) : "");
}

uint32_t DeviceMemory::slice_begin(uint32_t slice) const {
  return static_cast<uint32_t>(uint64_t{shape_.chunk_elements} * slice / shape_.slices);
}

DeviceMemory::Values DeviceMemory::read(const Cell& cell, const Touch& touch, const VectorClock& clock) {
  const uint32_t place = place_of(cell);
  races_.read(place, touch, clock);
  if (!written_[place]) {
    throw Error(ErrorCode::invalid_input,
                step_name_(touch.step) + " reads " + name_of(place) + ", which nothing has written");
  }
  const auto begin = values_.begin() + static_cast<ptrdiff_t>(place / shape_.slices) * shape_.chunk_elements;
  return Values(begin + slice_begin(cell.slice), begin + slice_begin(cell.slice + 1));
}

void DeviceMemory::write(const Cell& cell, const Values& values, const Touch& touch, const VectorClock& clock) {
  const uint32_t place = place_of(cell);
  const uint32_t begin = slice_begin(cell.slice);
  CHECK_EQ(values.size(), slice_begin(cell.slice + 1) - begin);
  if (!writable_[place / shape_.slices]) {
    const bool undefined = cell.buffer == BufferKind::output && !defines_output(shape_, cell.rank);
    throw Error(ErrorCode::invalid_input, step_name_(touch.step) + " writes " + name_of(place) +
                                              (undefined ? ", but only the root of a reduce has an output"
                                                         : ", the caller's input, which is not output as well"));
  }
  races_.write(place, touch, clock);
  written_[place] = true;
  std::copy(values.begin(), values.end(),
            values_.begin() + static_cast<ptrdiff_t>(place / shape_.slices) * shape_.chunk_elements + begin);
}

void DeviceMemory::caller_takes(uint32_t rank, const Touch& touch, const VectorClock& clock) {
  const Region& region = regions_[rank];
  for (uint32_t chunk = region.base; chunk < region.base + region.chunks; ++chunk) {
    for (uint32_t slice = 0; slice < shape_.slices; ++slice) races_.write(chunk * shape_.slices + slice, touch, clock);
  }
}

RankArrays DeviceMemory::outputs() const {
  RankArrays outputs(shape_.ranks);
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    if (!defines_output(shape_, rank)) continue;
    for (uint32_t chunk = 0; chunk < shape_.output_chunks(); ++chunk) {
      const uint32_t at = chunk_at(rank, BufferKind::output, chunk);
      for (uint32_t slice = 0; slice < shape_.slices; ++slice) {
        const uint32_t place = at * shape_.slices + slice;
        if (!written_[place]) throw Error(ErrorCode::mismatch, name_of(place) + " is never written");
      }
      const auto begin = values_.begin() + static_cast<ptrdiff_t>(at) * shape_.chunk_elements;
      std::transform(begin, begin + shape_.chunk_elements, std::back_inserter(outputs[rank]),
                     [](uint64_t value) { return static_cast<int64_t>(value); });
    }
  }
  return outputs;
}

}  // namespace banyan::testing
