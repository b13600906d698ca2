// The binary form of Chakra traces: a sequence of (length as a varint, protobuf message), of which the first is the
// file's metadata and every other one a node. There is no count and no end marker.
//
// Memory: one message of at most kMaxMessage bytes, and up to fifty times that where it consists of empty attributes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "banyan/job/chakra/node.h"
#include "banyan/job/text/trace_source.h"

namespace banyan::job::chakra {

class BinaryReader {
 public:
  static constexpr uint64_t kMaxMessage = uint64_t{1} << 22;  // 4 MiB; 16,384 dependencies are 48 KiB

  // `source` outlives the reader. A file whose first message is a node has no metadata, and is read all the same.
  explicit BinaryReader(TraceSource& source);
  ~BinaryReader();

  // The next node, false after the last. Throws Error{invalid_input} for what is no message or ends within one, and
  // Error{unsupported} for one above kMaxMessage; the caller knows where.
  bool next(TraceNode& node);

 private:
  struct Messages;

  bool read_message();  // into text_; false at the end

  TraceSource& source_;
  std::unique_ptr<Messages> messages_;
  std::string text_;
  bool has_message_ = false;  // text_ is a node that was not given yet
};

// With its length in front. `metadata` is what a file begins with.
std::string metadata_message();
void append_node(const TraceNode& node, std::string& file);

}  // namespace banyan::job::chakra
