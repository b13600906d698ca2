// One rank's Kineto trace: what ran on its GPUs and CPUs and when, as torch.profiler writes it (Chrome trace JSON).
//
// Read are both spellings that Kineto had (cat "kernel" and "Kernel", tid 7 and "stream 7", times in whole or fractions
// of microseconds), ROCm's, and the traces of PyTorch without Kineto (a bare list of events without categories). Begin
// and end events (ph B, E) are joined, the last one that began first. Left out: python_function, overhead and other
// events that are known to neither launch, nor run on a GPU, nor name a host operator. Events of all other categories
// are left out, too, and counted.
//
// Memory: 80 bytes an event that is kept, names and lists of ranks once each; a communication takes some 200 bytes
// more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/job/kineto/comm.h"
#include "banyan/job/kineto/group_table.h"
#include "banyan/job/kineto/kineto.h"
#include "banyan/job/name_table.h"
#include "banyan/job/text/trace_source.h"

namespace banyan::job::kineto {

struct Event {
  enum class Kind : uint8_t { cpu_op, annotation, runtime, kernel, memcpy, memset };
  static constexpr int64_t kNone = -1;

  Kind kind = Kind::cpu_op;
  uint32_t name = 0;                // into Trace::names
  uint32_t track = 0;               // into Trace::tracks: a thread, or a stream of a device
  uint32_t comm = UINT32_MAX;       // into Trace::comms: its args tell of a communication
  int64_t start = 0, duration = 0;  // ns
  int64_t external_id = kNone, correlation = kNone, record_id = kNone, index = kNone;  // index: "Ev Idx"
  uint64_t bytes = 0;                                                                  // of a memcpy or memset
  uint64_t number = 0;  // of the event in the file: how errors call it

  int64_t end() const { return start + duration; }
  // Orders events as they began; of those that began at once, the outer one comes first.
  std::pair<int64_t, int64_t> begun() const { return {start, -duration}; }
  bool on_gpu() const { return kind == Kind::kernel || kind == Kind::memcpy || kind == Kind::memset; }
  // As profilers write what they have no times of (pytorch/kineto issue 109).
  bool lost_its_times() const { return on_gpu() && start == 0 && duration == 0; }
};

// CUPTI's record of a call that waits (cat "cuda_sync").
struct Sync {
  enum class Kind : uint8_t { stream, context, event, stream_wait };
  Kind kind = Kind::stream;
  int64_t correlation = -1;
  int64_t device = -1;
  int64_t stream = -1;         // that is waited for (stream), or that waits (stream_wait)
  int64_t source_stream = -1;  // where the event was recorded
  int64_t record = -1;         // correlation of the call that recorded the event
};

struct Arrow {
  int64_t id = 0;
  uint32_t track = 0;
  int64_t time = 0;
};

struct Track {
  bool gpu = false;
  int64_t process = 0, thread = 0;  // of a GPU: device and stream
  std::string label;                // "thread 1331", "GPU 0 stream 7"
};

struct Trace {
  std::string source;  // the file's name
  NameTable names;
  std::vector<Track> tracks;
  std::vector<Event> events;  // in the order of the file
  std::vector<Sync> syncs;
  std::vector<Arrow> starts, ends;  // arrows ac2g
  std::vector<CommCall> comms;
  std::vector<std::vector<uint32_t>> rank_lists;  // of groups, each once: communications repeat them
  std::vector<ProcessGroup> groups;               // of distributedInfo
  std::optional<uint32_t> rank, world_size;

  std::vector<UnknownCategory> unknown;  // in the order of the file

  // Events in the file, those left out that have no start, those mended that have no or a negative duration (or B
  // without E), E without B, mended text (NaN, stray backslashes, bytes that are no text), and a text that ends within
  // the events.
  LinkCounts counts;
  uint64_t position = 0;  // of the byte at which the reading ended

  std::string_view name(const Event& event) const { return names[event.name]; }
};

// Throws Error{invalid_input} with file, event and byte for what is no trace, see stream_json, and Error{unsupported}
// for groups that no run has; a trace without GPU and host operators is no error here.
// Complexity O(events log events).
Trace read_trace(TraceSource source);

}  // namespace banyan::job::kineto
