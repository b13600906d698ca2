// A dump as JSON, and back.
#include <array>
#include <cstdio>
#include <set>
#include <string_view>

#include "banyan/base/error.h"
#include "banyan/base/json_line.h"
#include "banyan/base/json_reader.h"
#include "banyan/run/call/names.h"
#include "banyan/run/record/dump.h"

namespace banyan::run {
namespace {

constexpr std::string_view kFormat = "flight-recorder/2", kOldFormat = "flight-recorder/1";
constexpr JsonForm kForm{.name = "flight record", .format = "", .depth = 16};  // the format needs 4
constexpr size_t kMaxText = 4096;       // bytes of a name or a message that is read
constexpr size_t kCutText = 1024;       // and written: bytes that are no UTF-8 become three
constexpr size_t kMaxRecords = 65'536;  // of one file; a recorder has far fewer

// Hashes are 64 bits wide, which many readers of JSON numbers do not carry.
std::string as_hex(uint64_t value) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

std::string operation_json(const OperationRecord& record) {
  JsonLine json;
  json.add("ticket", record.ticket).add("sequence", record.sequence).add("kind", to_string(record.kind));
  if (has_elements(record.kind)) json.add("type", to_string(record.type)).add("count", record.count);
  if (reduces(record.kind)) json.add("op", to_string(record.op));
  if (record.counts_hash != 0) json.add("counts_hash", as_hex(record.counts_hash));
  if (record.other != kNoRank) json.add(is_message(record.kind) ? "peer" : "root", record.other);
  json.add("state", to_string(record.state)).add("step", record.step);
  if (record.waits_for != kNoRank) json.add("waits_for", record.waits_for);
  json.add("begin_ns", record.begin);
  if (record.end != 0) json.add("end_ns", record.end);
  return json.take();
}

std::string peer_json(const PeerRecord& peer) {
  return JsonLine().add("rank", peer.rank).add("health", to_string(peer.health)).add("sequence", peer.sequence).take();
}

std::string pair_json(const MessagePair& pair) {
  return JsonLine()
      .add("rank", pair.rank)
      .add("sent", pair.sent)
      .add("received", pair.received)
      .add("last_tag", pair.last_tag)
      .take();
}

std::string message_json(const MessageRecord& message) {
  JsonLine json;
  json.add("number", message.number).add("kind", message.is_send ? "send" : "recv");
  if (message.peer != kNoRank) json.add("peer", message.peer);
  json.add("tag", message.tag).add("type", to_string(message.type)).add("count", message.count);
  json.add("state", to_string(message.state));
  if (message.awaited_since != 0) json.add("awaited_since_ns", message.awaited_since);
  return json.take();
}

// A list, each of its items on a line of its own.
template <typename List, typename ToJson>
std::string lines_of(const List& list, ToJson to_json) {
  std::string text = "[";
  for (const auto& each : list) text += (&each == list.data() ? "\n" : ",\n") + to_json(each);
  return text + "]";
}

std::string messages_json(const MessageRecords& records) {
  return "{\"begun\": " + std::to_string(records.begun) + ", \"with\": " + lines_of(records.pairs, pair_json) +
         ",\n\"records\": " + lines_of(records.messages, message_json) + "}";
}

std::string text_of(JsonNode node) {
  std::string text = node.text();
  if (text.size() > kMaxText) throw node.error("is longer than " + std::to_string(kMaxText) + " bytes");
  return text;
}

// Nanoseconds. Times beyond 146 years, either way, would overflow when they are compared.
int64_t time_of(JsonNode node) { return node.integer(-(INT64_MAX / 2), INT64_MAX / 2); }

// kNoRank where there is none.
uint32_t rank_or_none(JsonNode object, std::string_view key, uint32_t size) {
  const std::optional<JsonNode> found = object.find(key);
  return found ? found->number_of(size, "ranks") : kNoRank;
}

uint64_t parse_hex(const std::string& text) {
  const bool is_hex = text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_hex) throw invalid("'" + text.substr(0, 60) + "' is not 16 hexadecimal digits");
  return std::stoull(text, nullptr, 16);
}

DumpReason parse_reason(const std::string& text) { return parse_name<DumpReason>(text, "reason", kDumpReasons); }

OperationRecord read_operation(JsonNode object, uint32_t size) {
  object.with_keys({"ticket", "sequence", "kind", "type", "count", "op", "counts_hash", "peer", "root", "state", "step",
                    "waits_for", "begin_ns", "end_ns"});
  OperationRecord record;
  record.ticket = object.at("ticket").whole(1);
  record.sequence = object.at("sequence").whole(1);
  record.kind = object.at("kind").parsed(parse_operation_kind);
  if (has_elements(record.kind)) {
    record.type = object.at("type").parsed(codec::parse_wire_type);
    record.count = object.at("count").whole();
  }
  if (reduces(record.kind)) record.op = object.at("op").parsed(element::parse_reduce_op);
  if (const auto hash = object.find("counts_hash")) record.counts_hash = hash->parsed(parse_hex);
  record.other = rank_or_none(object, is_message(record.kind) ? "peer" : "root", size);
  record.state = object.at("state").parsed(parse_operation_state);
  record.step = static_cast<uint32_t>(object.at("step").whole(0, UINT32_MAX));
  record.waits_for = rank_or_none(object, "waits_for", size);
  record.begin = time_of(object.at("begin_ns"));
  if (const auto end = object.find("end_ns")) record.end = time_of(*end);
  return record;
}

void read_operations(JsonNode list, RankDump& dump) {
  if (list.size() > kMaxRecords) throw list.error("has more than " + std::to_string(kMaxRecords) + " records");
  uint64_t sequence = 0, ticket = 0;
  for (const JsonNode object : list.items()) {
    const OperationRecord record = read_operation(object, dump.size);
    if (record.ticket <= ticket) throw object.at("ticket").error("does not ascend");
    ticket = record.ticket;
    if (is_collective(record.kind)) {
      if (record.sequence <= sequence) throw object.at("sequence").error("does not ascend");
      sequence = record.sequence;
    }
    dump.operations.push_back(record);
  }
}

void read_peers(JsonNode list, RankDump& dump) {
  if (list.size() > RankDump::kMaxSize) throw list.error("is too long");
  std::set<uint32_t> seen;
  for (const JsonNode object : list.items()) {
    object.with_keys({"rank", "health", "sequence"});
    const PeerRecord peer{.rank = object.at("rank").number_of(dump.size, "ranks"),
                          .health = object.at("health").parsed(parse_health),
                          .sequence = object.at("sequence").whole()};
    if (!seen.insert(peer.rank).second)
      throw object.error("is of rank " + std::to_string(peer.rank) + ", which occurs twice");
    dump.peers.push_back(peer);
  }
}

bool parse_is_send(const std::string& text) {
  if (text != "send" && text != "recv") throw invalid("'" + text.substr(0, 60) + "' is neither send nor recv");
  return text == "send";
}

MessageRecord read_message(JsonNode object, uint32_t size) {
  object.with_keys({"number", "kind", "peer", "tag", "type", "count", "state", "awaited_since_ns"});
  MessageRecord message;
  message.number = object.at("number").whole(1);
  message.is_send = object.at("kind").parsed(parse_is_send);
  message.peer = rank_or_none(object, "peer", size);
  message.tag = static_cast<uint32_t>(object.at("tag").whole(0, UINT32_MAX));
  message.type = object.at("type").parsed(element::parse_data_type);
  message.count = object.at("count").whole();
  message.state = object.at("state").parsed(parse_operation_state);
  if (const auto since = object.find("awaited_since_ns")) message.awaited_since = time_of(*since);
  return message;
}

void read_messages(JsonNode object, RankDump& dump) {
  object.with_keys({"begun", "with", "records"});
  dump.messages.begun = object.at("begun").whole();
  std::set<uint32_t> seen;
  for (const JsonNode each : object.at("with").items()) {
    each.with_keys({"rank", "sent", "received", "last_tag"});
    const MessagePair pair{.rank = each.at("rank").number_of(dump.size, "ranks"),
                           .sent = each.at("sent").whole(),
                           .received = each.at("received").whole(),
                           .last_tag = static_cast<uint32_t>(each.at("last_tag").whole(0, UINT32_MAX))};
    if (!seen.insert(pair.rank).second)
      throw each.error("is of rank " + std::to_string(pair.rank) + ", which occurs twice");
    dump.messages.pairs.push_back(pair);
  }
  if (object.at("records").size() > kMaxRecords)
    throw object.at("records").error("has more than " + std::to_string(kMaxRecords) + " records");
  uint64_t number = 0;
  for (const JsonNode each : object.at("records").items()) {
    dump.messages.messages.push_back(read_message(each, dump.size));
    if (dump.messages.messages.back().number <= number) throw each.at("number").error("does not ascend");
    number = dump.messages.messages.back().number;
  }
}

// Either version; the one before had no messages.
void expect_known_format(JsonNode root) {
  const std::optional<JsonNode> format = root.find("banyan");
  const bool is_known = format && format->is_text() && (format->text() == kFormat || format->text() == kOldFormat);
  if (is_known) return;
  throw invalid((format ? "is " + format->in_words() : "the flight record has no \"banyan\"") +
                "; a flight record says \"banyan\": \"" + std::string(kFormat) + "\", or \"" + std::string(kOldFormat) +
                "\"");
}

RankDump read_document(JsonNode root) {
  expect_known_format(root);
  root.with_keys({"banyan", "communicator", "process", "written", "waits_for", "peers", "begun", "torn", "operations",
                  "messages"});
  RankDump dump;
  const JsonNode communicator = root.at("communicator").with_keys({"name", "id", "rank", "size"});
  dump.communicator = text_of(communicator.at("name"));
  dump.id = text_of(communicator.at("id"));
  dump.size = static_cast<uint32_t>(communicator.at("size").whole(0, RankDump::kMaxSize));
  dump.rank = communicator.at("rank").number_of(dump.size, "ranks");
  const JsonNode process = root.at("process").with_keys({"host", "program", "pid", "thread", "started_ns"});
  dump.host = text_of(process.at("host"));
  dump.program = text_of(process.at("program"));
  dump.pid = process.at("pid").integer(0, INT64_MAX);
  dump.thread = process.at("thread").integer(0, INT64_MAX);
  if (const auto started = process.find("started_ns")) dump.started = time_of(*started);
  const JsonNode written = root.at("written").with_keys({"monotonic_ns", "wall_offset_ns", "reason", "message"});
  dump.time = time_of(written.at("monotonic_ns"));
  dump.wall_offset = time_of(written.at("wall_offset_ns"));
  dump.reason = written.at("reason").parsed(parse_reason);
  dump.message = text_of(written.at("message"));
  dump.waits_for = rank_or_none(root, "waits_for", dump.size);
  dump.begun = root.at("begun").whole();
  dump.torn = root.at("torn").whole();
  read_peers(root.at("peers"), dump);
  read_operations(root.at("operations"), dump);
  if (const auto messages = root.find("messages")) read_messages(*messages, dump);
  return dump;
}

}  // namespace

std::string dump_to_json(const RankDump& dump) {
  const auto cut = [](const std::string& text) { return std::string_view(text).substr(0, kCutText); };
  std::string text = "{\"banyan\": \"" + std::string(kFormat) + "\"";
  const auto field = [&](const char* name, const std::string& value) {
    text += std::string(",\n\"") + name + "\": " + value;
  };
  field("communicator", JsonLine()
                            .add("name", cut(dump.communicator))
                            .add("id", cut(dump.id))
                            .add("rank", dump.rank)
                            .add("size", dump.size)
                            .take());
  JsonLine process;
  process.add("host", cut(dump.host)).add("program", cut(dump.program)).add("pid", dump.pid).add("thread", dump.thread);
  if (dump.started != 0) process.add("started_ns", dump.started);
  field("process", process.take());
  field("written", JsonLine()
                       .add("monotonic_ns", dump.time)
                       .add("wall_offset_ns", dump.wall_offset)
                       .add("reason", to_string(dump.reason))
                       .add("message", cut(dump.message))
                       .take());
  if (dump.waits_for != kNoRank) field("waits_for", std::to_string(dump.waits_for));
  field("begun", std::to_string(dump.begun));
  field("torn", std::to_string(dump.torn));
  field("peers", lines_of(dump.peers, peer_json));
  field("operations", lines_of(dump.operations, operation_json));
  if (dump.messages.begun > 0) field("messages", messages_json(dump.messages));
  return text + "}\n";
}

RankDump parse_dump(std::string_view json) { return read_document(JsonDocument(json, kForm).root()); }

}  // namespace banyan::run
