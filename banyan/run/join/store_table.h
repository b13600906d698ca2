// StoreTable: what a StoreServer knows, and how it answers. No sockets, no threads, no clock.
//
// A conversation is made of frames: a size in four bytes, little-endian, then so many bytes. A request has a number,
// which its reply repeats, a verb and texts (wire.h):
//
//   set      key, value          -> done
//   wait     key                 -> done, value; when there is one, maybe much later
//   try_get  key                 -> done, value; or absent
//   add      key, delta (u64)    -> done, new value as decimal text
//   call     name, again (u8)    -> done; or absent, when `again` is 1 and nobody of that name has called
//   will     counter, key, value, host id, pid (u32), start time (u64)   -> done
//
// The last two are the StoreServer's, not the table's. A visitor whose connection has broken calls again by its name
// and repeats the request that has no reply; one that was answered is not carried out twice.
//
// A reply has the number, an outcome, and the bytes of the value, or of a message when it failed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "banyan/run/join/store.h"

namespace banyan::run {

enum class StoreVerb : uint8_t { set, wait, try_get, add, call, will };
enum class StoreOutcome : uint8_t { done, absent, failed };

// Cuts a stream of bytes into the contents of frames. Holds no more than has come.
class FrameReader {
 public:
  static constexpr size_t kHead = 4;
  // The largest reply: number, outcome, value; a request has two sizes and a key besides.
  static constexpr size_t kMaxFrame = Store::kMaxValue + Store::kMaxKey + 64;

  void append(std::string_view bytes) { bytes_ += bytes; }
  // The next one, without its size; nothing when it has not come entirely. Throws Error{invalid_input} when it is too
  // large.
  std::optional<std::string> next();

 private:
  std::string bytes_;
};

// `size` is that of what follows the four bytes.
std::string frame_head(size_t size);

class StoreTable {
 public:
  // Many clients may be sent the same value.
  struct Reply {
    std::string head;                          // begins with the size of the frame
    std::shared_ptr<const std::string> value;  // follows; shared with the table and other replies, never changed
  };
  using Answer = std::function<void(uint64_t client, Reply reply)>;

  // `answer` is called by request(), for the client that asks and for those that waited. It must not call the table.
  StoreTable(size_t max_memory, Answer answer) : max_memory_(max_memory), answer_(std::move(answer)) {}

  // The contents of one frame. A client waits for one thing at a time: another request takes that back. Throws
  // Error{invalid_input} for what is no request.
  void request(uint64_t client, std::string_view frame);
  void forget(uint64_t client);

  size_t memory() const { return memory_; }
  size_t waiting() const { return waits_.size(); }

 private:
  struct Wait {
    uint32_t number = 0;
    std::string key;
  };
  using Value = std::shared_ptr<const std::string>;

  Value find(const std::string& key) const;
  void put(const std::string& key, std::string value);
  void reply(uint64_t client, uint32_t number, StoreOutcome outcome, Value value);

  size_t max_memory_;
  Answer answer_;
  std::unordered_map<std::string, Value> values_;
  std::unordered_map<uint64_t, Wait> waits_;               // by client
  std::map<std::string, std::set<uint64_t>> waiting_for_;  // clients by key
  size_t memory_ = 0;
};

}  // namespace banyan::run
