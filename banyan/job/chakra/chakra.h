// Chakra: execution traces of MLCommons (schema 1.0.0), one file per rank, as the PyTorch converter, ASTRA-sim's
// generators and their kin write them. docs/formats/jobs.md says what is read, what sizes mean, and how the traps of
// real files are treated.
//
// A rank is a program; its nodes keep the order of the file, which need not be sorted. Groups come from a side file
// { "group id": [ranks] } or from the nodes "## process_group:init ##" of each trace. Nodes with the attribute `stream`
// go on "stream N"; the others on "compute" and "collectives", or on "host" where is_cpu_op says so. All of these are
// of Order::ready. Sends and receives hold no stream: they are on "messages" or "stream N messages", of Order::free.
//
// A file is recognised by its content: binary or JSON, plain or gzip.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/job/job.h"

namespace banyan::job::chakra {

struct Options {
  // True: nodes wait for their control dependencies, too. False: for data dependencies alone, as in ASTRA-sim's older
  // feeders.
  bool control_dependencies = true;

  // The meaning of comm_size of an allgather or a gather: the bytes that each member puts in (shard), as the PyTorch
  // converter writes it, or those of all shards together (total), as ASTRA-sim takes it. All other sizes mean the same
  // to both: see CollectiveKind.
  enum class GatherSize : uint8_t { shard, total };
  GatherSize gather_size = GatherSize::shard;

  // For nodes without a duration: the longer of num_ops / flop_per_second and tensor_size / bytes_per_second. 0:
  // unknown.
  double flop_per_second = 0, bytes_per_second = 0;

  // Sizes of the logical dimensions of old traces, whose collectives say which of them take part (involved_dim); the
  // first varies fastest. Their product is the number of ranks.
  std::vector<uint32_t> dimensions = {};
};

// A file's name in errors and its content.
struct TraceText {
  std::string name;
  std::string_view content;
};

// PREFIX.0.et, PREFIX.1.et, ... (or .json, each perhaps with .gz), by rank. Throws Error{not_found} naming the first
// rank that is missing while there are higher ones, or all of them; Error{invalid_input} when two are of one rank.
std::vector<std::string> find_files(const std::string& prefix);

// The i-th file is of rank i; `groups` may be empty. All throw Error that names file, place in it and node:
// Error{invalid_input} for a truncated or damaged file, dependencies on nodes that are not there (both ids), circles,
// ids that are there twice, unknown groups, negative and overflowing numbers, a node without duration that has work to
// do but no rate in the options (named); Error{unsupported} for node types that are not known and beyond limits: see
// Job, BinaryReader, and kMaxGzipRatio.
//
// Memory: that of the job, 150 bytes a node and 8 a dependency of the file that is being read, 16 a dependency whose
// node comes later. Time O(nodes + dependencies).
Job read_job(std::span<const std::string> files, const std::string& groups_file, const Options& options = {});
Job parse_job(std::span<const TraceText> files, std::string_view groups, const Options& options = {});

// A gzip file may not unpack to more than this many times its size, or this much if that is more. Traces reach 30.
constexpr uint64_t kMaxGzipRatio = 200;
constexpr uint64_t kMinGzipLimit = uint64_t{16} << 20;

struct Files {
  std::vector<std::string> traces;  // binary, by rank
  std::string groups;               // the side file; its key is the group's name, or its number if names repeat
};
// Reads back as the same job, with the same options, if it came from Chakra. Otherwise streams are as above, or the
// attribute `stream` has their number; Order::program becomes data dependencies from node to node; a memory node is one
// that loads; FLOP are rounded. Times that are not whole microseconds are kept in an attribute of ours, `duration_ps`.
// Throws Error{unsupported} that names rank and node for what Chakra has no words for: nodes that follow others, things
// that take time on a stream of Order::free, allgathers that do not divide into shards.
Files write_job(const Job& job, const Options& options = {});

}  // namespace banyan::job::chakra
