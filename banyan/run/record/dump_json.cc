// A dump as JSON, and back.
#include <algorithm>
#include <array>
#include <cstdio>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>

#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/run/record/dump.h"

namespace banyan {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kFormat = "flight-recorder/1";
constexpr size_t kMaxDepth = 16;        // the format itself needs 3
constexpr size_t kMaxText = 4096;       // bytes of a name or a message that is read
constexpr size_t kCutText = 1024;       // and written: bytes that are no UTF-8 become three
constexpr size_t kMaxRecords = 65'536;  // of one file; a recorder has far fewer

Error invalid(const std::string& message) { return Error(ErrorCode::invalid_input, message); }

// Hashes are 64 bits wide, which many readers of JSON numbers do not carry.
std::string as_hex(uint64_t value) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

OrderedJson operation_json(const OperationRecord& record) {
  OrderedJson json = {{"ticket", record.ticket}, {"sequence", record.sequence}, {"kind", to_string(record.kind)}};
  if (has_elements(record.kind)) {
    json["type"] = to_string(record.type);
    json["count"] = record.count;
  }
  if (reduces(record.kind)) json["op"] = to_string(record.op);
  if (record.counts_hash != 0) json["counts_hash"] = as_hex(record.counts_hash);
  if (record.other != kNoRank) json[is_message(record.kind) ? "peer" : "root"] = record.other;
  json["state"] = to_string(record.state);
  json["step"] = record.step;
  if (record.waits_for != kNoRank) json["waits_for"] = record.waits_for;
  json["begin_ns"] = record.begin;
  if (record.end != 0) json["end_ns"] = record.end;
  return json;
}

// Refuses hostile nesting before anything recursive sees it.
void check_depth(std::string_view json) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) throw invalid("is nested deeper than a flight record ever is");
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
}

Json parse_json(std::string_view text) {
  check_depth(text);
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, ..." without the library's own prefix.
    const std::string what = error.what();
    const size_t start = what.find("] ");
    throw invalid("is not JSON: " + what.substr(start == std::string::npos ? 0 : start + 2).substr(0, 200));
  }
}

// One object of the file, with its place for messages ("operations[3]"). Unknown keys are refused.
class Object {
 public:
  Object(const Json& json, std::string place, std::initializer_list<std::string_view> known)
      : json_(json), place_(std::move(place)) {
    if (!json.is_object()) throw invalid(place_ + " is not an object");
    for (const auto& [key, value] : json.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      NearestName nearest(key);
      for (const std::string_view name : known) nearest.offer(name);
      throw invalid(place_ + " has unknown key '" + key.substr(0, 60) + "'" + nearest.hint());
    }
  }

  bool has(const char* key) const { return json_.contains(key); }
  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) throw invalid(place_ + " has no \"" + key + "\"");
    return *found;
  }
  std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) throw invalid(at_key(key) + " is not a text");
    std::string text = value.get<std::string>();
    if (text.size() > kMaxText) throw invalid(at_key(key) + " is longer than " + std::to_string(kMaxText) + " bytes");
    return text;
  }
  const Json& array(const char* key) const {
    const Json& value = at(key);
    if (!value.is_array()) throw invalid(at_key(key) + " is not an array");
    if (value.size() > RankDump::kMaxSize) throw invalid(at_key(key) + " is too long");
    return value;
  }
  uint64_t whole(const char* key, uint64_t most = UINT64_MAX) const {
    const Json& value = at(key);
    if (!value.is_number_unsigned() || value.get<uint64_t>() > most) {
      const std::string limit = most == UINT64_MAX ? "" : " of at most " + std::to_string(most);
      throw invalid(at_key(key) + " is not a whole number" + limit + ", zero or above");
    }
    return value.get<uint64_t>();
  }
  // Nanoseconds. Times beyond 146 years, either way, would overflow when they are compared.
  int64_t time(const char* key) const {
    constexpr int64_t kMost = INT64_MAX / 2;
    const Json& value = at(key);
    const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= uint64_t{kMost} : value.is_number_integer();
    if (!fits || value.get<int64_t>() < -kMost) throw invalid(at_key(key) + " is not a number of nanoseconds");
    return value.get<int64_t>();
  }
  // kNoRank where there is none.
  uint32_t rank(const char* key, uint32_t size) const {
    if (!has(key)) return kNoRank;
    const uint64_t value = whole(key);
    if (value >= size)
      throw invalid(at_key(key) + " is " + std::to_string(value) + ", but there are " + std::to_string(size) +
                    " ranks, counted from 0");
    return static_cast<uint32_t>(value);
  }
  template <typename Parse>
  auto word(const char* key, Parse parse) const {
    try {
      return parse(text(key));
    } catch (const Error& error) {
      throw invalid(at_key(key) + ": " + error.message());
    }
  }
  std::string at_key(const char* key) const { return place_ + "." + key; }

 private:
  const Json& json_;
  std::string place_;
};

uint64_t parse_hex(const std::string& text) {
  const bool is_hex = text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_hex) throw invalid("'" + text.substr(0, 60) + "' is not 16 hexadecimal digits");
  return std::stoull(text, nullptr, 16);
}

DumpReason parse_reason(const std::string& text) {
  for (const DumpReason reason : {DumpReason::timeout, DumpReason::error, DumpReason::asked}) {
    if (to_string(reason) == text) return reason;
  }
  throw invalid("unknown reason '" + text.substr(0, 60) + "'; known are timeout, error, asked");
}

OperationRecord read_operation(const Json& json, const std::string& place, uint32_t size) {
  const Object object(json, place,
                      {"ticket", "sequence", "kind", "type", "count", "op", "counts_hash", "peer", "root", "state",
                       "step", "waits_for", "begin_ns", "end_ns"});
  OperationRecord record;
  record.ticket = object.whole("ticket");
  record.sequence = object.whole("sequence");
  if (record.ticket == 0 || record.sequence == 0) throw invalid(place + ": tickets and sequences count from 1");
  record.kind = object.word("kind", parse_operation_kind);
  if (has_elements(record.kind)) {
    record.type = object.word("type", parse_data_type);
    record.count = object.whole("count");
  }
  if (reduces(record.kind)) record.op = object.word("op", parse_reduce_op);
  if (object.has("counts_hash")) record.counts_hash = object.word("counts_hash", parse_hex);
  record.other = object.rank(is_message(record.kind) ? "peer" : "root", size);
  record.state = object.word("state", parse_operation_state);
  record.step = static_cast<uint32_t>(object.whole("step", UINT32_MAX));
  record.waits_for = object.rank("waits_for", size);
  record.begin = object.time("begin_ns");
  if (object.has("end_ns")) record.end = object.time("end_ns");
  return record;
}

void read_operations(const Object& root, RankDump& dump) {
  const Json& list = root.array("operations");
  if (list.size() > kMaxRecords) throw invalid("operations has more than " + std::to_string(kMaxRecords) + " records");
  uint64_t sequence = 0, ticket = 0;
  for (const Json& json : list) {
    const std::string place = "operations[" + std::to_string(dump.operations.size()) + "]";
    const OperationRecord record = read_operation(json, place, dump.size);
    if (record.ticket <= ticket) throw invalid(place + ".ticket does not ascend");
    ticket = record.ticket;
    if (is_collective(record.kind)) {
      if (record.sequence <= sequence) throw invalid(place + ".sequence does not ascend");
      sequence = record.sequence;
    }
    dump.operations.push_back(record);
  }
}

void read_peers(const Object& root, RankDump& dump) {
  std::set<uint32_t> seen;
  for (const Json& json : root.array("peers")) {
    const std::string place = "peers[" + std::to_string(dump.peers.size()) + "]";
    const Object object(json, place, {"rank", "health", "sequence"});
    object.at("rank");
    const PeerNote peer{.rank = object.rank("rank", dump.size),
                        .health = object.word("health", parse_rank_health),
                        .sequence = object.whole("sequence")};
    if (!seen.insert(peer.rank).second) throw invalid(place + ": rank " + std::to_string(peer.rank) + " occurs twice");
    dump.peers.push_back(peer);
  }
}

RankDump read_document(const Json& json) {
  const Object root(
      json, "the record",
      {"banyan", "communicator", "process", "written", "waits_for", "peers", "begun", "torn", "operations"});
  if (const std::string format = root.text("banyan"); format != kFormat) {
    throw invalid("is \"" + format.substr(0, 60) + "\"; a flight record says \"banyan\": \"" + std::string(kFormat) +
                  "\"");
  }
  RankDump dump;
  const Object communicator(root.at("communicator"), "communicator", {"name", "id", "rank", "size"});
  dump.communicator = communicator.text("name");
  dump.id = communicator.text("id");
  dump.size = static_cast<uint32_t>(communicator.whole("size", RankDump::kMaxSize));
  communicator.at("rank");
  dump.rank = communicator.rank("rank", dump.size);
  const Object process(root.at("process"), "process", {"host", "program", "pid", "thread"});
  dump.host = process.text("host");
  dump.program = process.text("program");
  dump.pid = static_cast<int64_t>(process.whole("pid", INT64_MAX));
  dump.thread = static_cast<int64_t>(process.whole("thread", INT64_MAX));
  const Object written(root.at("written"), "written", {"monotonic_ns", "wall_offset_ns", "reason", "message"});
  dump.time = written.time("monotonic_ns");
  dump.wall_offset = written.time("wall_offset_ns");
  dump.reason = written.word("reason", parse_reason);
  dump.message = written.text("message");
  dump.waits_for = root.rank("waits_for", dump.size);
  dump.begun = root.whole("begun");
  dump.torn = root.whole("torn");
  read_peers(root, dump);
  read_operations(root, dump);
  return dump;
}

}  // namespace

std::string dump_to_json(const RankDump& dump) {
  const auto line = [](const OrderedJson& json) {
    return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  };
  const auto cut = [](const std::string& text) { return text.substr(0, kCutText); };
  std::string text = "{\"banyan\": \"" + std::string(kFormat) + "\",\n";
  text += "\"communicator\": " +
          line({{"name", cut(dump.communicator)}, {"id", cut(dump.id)}, {"rank", dump.rank}, {"size", dump.size}});
  text += ",\n\"process\": " +
          line({{"host", cut(dump.host)}, {"program", cut(dump.program)}, {"pid", dump.pid}, {"thread", dump.thread}});
  text += ",\n\"written\": " + line({{"monotonic_ns", dump.time},
                                     {"wall_offset_ns", dump.wall_offset},
                                     {"reason", to_string(dump.reason)},
                                     {"message", cut(dump.message)}});
  if (dump.waits_for != kNoRank) text += ",\n\"waits_for\": " + std::to_string(dump.waits_for);
  text += ",\n\"begun\": " + std::to_string(dump.begun) + ",\n\"torn\": " + std::to_string(dump.torn);
  text += ",\n\"peers\": [";
  for (const PeerNote& peer : dump.peers) {
    text += (&peer == dump.peers.data() ? "\n" : ",\n") +
            line({{"rank", peer.rank}, {"health", to_string(peer.health)}, {"sequence", peer.sequence}});
  }
  text += "],\n\"operations\": [";
  for (const OperationRecord& record : dump.operations) {
    text += (&record == dump.operations.data() ? "\n" : ",\n") + line(operation_json(record));
  }
  return text + "]}\n";
}

RankDump parse_dump(std::string_view json) { return read_document(parse_json(json)); }

}  // namespace banyan
