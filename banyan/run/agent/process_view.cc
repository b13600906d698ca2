#include "banyan/run/agent/process_view.h"

#include <algorithm>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/json_line.h"
#include "banyan/base/json_reader.h"

namespace banyan::run {
namespace {

constexpr JsonForm kForm{.name = "process view", .format = "process-view/1", .depth = 8};
constexpr size_t kMostText = 1024;

template <typename List>
void shorten(List& list, size_t most) {
  if (list.size() > most) list.resize(most);
}

// Those that somebody waits for first.
void bound_messages(MessageRecords& records) {
  std::erase_if(records.messages, [](const MessageRecord& message) { return !message.is_open(); });
  std::stable_partition(records.messages.begin(), records.messages.end(),
                        [](const MessageRecord& message) { return message.awaited_since != 0; });
  shorten(records.messages, ProcessView::kMostMessages);
  std::ranges::sort(records.messages,
                    [](const MessageRecord& a, const MessageRecord& b) { return a.number < b.number; });
  shorten(records.pairs, ProcessView::kMostPairs);
}

void bound(ProcessView& view) {
  shorten(view.communicators, ProcessView::kMostCommunicators);
  shorten(view.doubts, ProcessView::kMostDoubts);
  for (DoubtView& doubt : view.doubts) shorten(doubt.why, kMostText);
  size_t lanes = 0;
  for (CommunicatorView& communicator : view.communicators) {
    RankDump& record = communicator.record;
    std::erase_if(record.peers, [](const PeerRecord& peer) { return peer.health == Health::alive; });
    shorten(record.peers, ProcessView::kMostDoubts);
    if (record.operations.size() > ProcessView::kMostOperations) {
      record.operations.erase(record.operations.begin(), record.operations.end() - ProcessView::kMostOperations);
    }
    bound_messages(record.messages);
    std::ranges::sort(communicator.lanes, [](const LaneBytes& a, const LaneBytes& b) {
      return std::pair(b.sent + b.received, a.peer) < std::pair(a.sent + a.received, b.peer);
    });
    shorten(communicator.lanes, ProcessView::kMostLanes - lanes);
    lanes += communicator.lanes.size();
  }
}

std::string lane_json(const LaneBytes& lane) {
  return JsonLine()
      .add("peer", lane.peer)
      .add("lane", lane.lane)
      .add("sent", lane.sent)
      .add("received", lane.received)
      .take();
}

LaneBytes read_lane(JsonNode object) {
  object.with_keys({"peer", "lane", "sent", "received"});
  return {.peer = static_cast<uint32_t>(object.at("peer").whole(0, RankDump::kMaxSize)),
          .lane = static_cast<uint32_t>(object.at("lane").whole(0, UINT32_MAX)),
          .sent = object.at("sent").whole(),
          .received = object.at("received").whole()};
}

// "[a,b]" of objects.
std::string list_of(const std::vector<std::string>& objects) {
  std::string text = "[";
  for (const std::string& object : objects) text += (text.size() > 1 ? "," : "") + object;
  return text + "]";
}

std::string communicator_json(const CommunicatorView& communicator) {
  std::vector<std::string> lanes;
  for (const LaneBytes& lane : communicator.lanes) lanes.push_back(lane_json(lane));
  return R"({"record":)" + dump_to_json(communicator.record) + R"(,"lanes":)" + list_of(lanes) + "}";
}

CommunicatorView read_communicator(JsonNode object) {
  object.with_keys({"record", "lanes"});
  CommunicatorView communicator;
  communicator.record = object.at("record").placed([&] { return parse_dump(object.at("record").object_text()); });
  for (const JsonNode lane : object.at("lanes").items()) communicator.lanes.push_back(read_lane(lane));
  return communicator;
}

}  // namespace

std::string view_to_json(ProcessView view) {
  bound(view);
  std::vector<std::string> communicators, doubts;
  for (const CommunicatorView& communicator : view.communicators)
    communicators.push_back(communicator_json(communicator));
  for (const DoubtView& doubt : view.doubts) {
    doubts.push_back(
        JsonLine().add("rank", doubt.rank).add("health", to_string(doubt.health)).add("why", doubt.why).take());
  }
  std::string text = JsonLine()
                         .add("banyan", kForm.format)
                         .add("rank", view.rank)
                         .add("size", view.size)
                         .add("host", view.host)
                         .add("pid", view.pid)
                         .take();
  text.pop_back();
  return text + R"(,"communicators":)" + list_of(communicators) + R"(,"doubts":)" + list_of(doubts) + "}";
}

ProcessView parse_view(std::string_view json) {
  const JsonDocument document(json, kForm);
  const JsonNode root = document.root();
  root.with_keys({"banyan", "rank", "size", "host", "pid", "communicators", "doubts"});
  ProcessView view;
  view.size = static_cast<uint32_t>(root.at("size").whole(1, RankDump::kMaxSize));
  view.rank = root.at("rank").number_of(view.size, "ranks");
  view.host = root.at("host").text();
  view.pid = root.at("pid").integer(0, INT64_MAX);
  for (const JsonNode object : root.at("communicators").items())
    view.communicators.push_back(read_communicator(object));
  for (const JsonNode object : root.at("doubts").items()) {
    object.with_keys({"rank", "health", "why"});
    view.doubts.push_back({.rank = object.at("rank").number_of(view.size, "ranks"),
                           .health = object.at("health").parsed(parse_health),
                           .why = object.at("why").text()});
  }
  return view;
}

}  // namespace banyan::run
