#include "banyan/run/record/rank_news.h"

#include <algorithm>
#include <sstream>

#include "banyan/run/record/recorder.h"

namespace banyan::run {
namespace {

// The number of a value of an enumeration of `count`; reading fails when there is no such.
template <typename Enumeration>
void read_value(std::istream& stream, Enumeration& value, size_t count) {
  size_t number = 0;
  if (stream >> number && number < count) {
    value = static_cast<Enumeration>(number);
  } else {
    stream.setstate(std::ios::failbit);
  }
}

void read_type(std::istream& stream, codec::WireType& type) {
  size_t number = 0;
  if (stream >> number && codec::WireType::is_known(number)) {
    type = codec::WireType::of_number(static_cast<uint8_t>(number));
  } else {
    stream.setstate(std::ios::failbit);
  }
}

// The messages that are worth telling.
MessageRecords newest(MessageRecords records, int64_t now) {
  std::erase_if(records.messages, [](const MessageRecord& message) { return !message.is_open(); });
  std::stable_sort(
      records.messages.begin(), records.messages.end(),
      [](const MessageRecord& a, const MessageRecord& b) { return (a.awaited_since != 0) > (b.awaited_since != 0); });
  if (records.messages.size() > RankNews::kMessages) records.messages.resize(RankNews::kMessages);
  const auto is_of_message = [&](const MessagePair& pair) {
    return std::ranges::any_of(records.messages,
                               [&](const MessageRecord& message) { return message.peer == pair.rank; });
  };
  if (records.pairs.size() > RankNews::kPairs) {
    std::stable_partition(records.pairs.begin(), records.pairs.end(), is_of_message);
    records.pairs.resize(RankNews::kPairs);
  }
  for (MessageRecord& message : records.messages) {
    if (message.awaited_since != 0) message.awaited_since = std::min<int64_t>(-1, message.awaited_since - now);
  }
  return records;
}

MessageRecord read_message(std::istream& stream) {
  MessageRecord message;
  int is_send = 0;
  size_t type = 0;
  stream >> message.number >> is_send >> type;
  read_value(stream, message.state, kOperationStates);
  stream >> message.peer >> message.tag >> message.count >> message.awaited_since;
  message.is_send = is_send != 0;
  if (type < element::kDataTypes) {
    message.type = static_cast<element::DataType>(type);
  } else {
    stream.setstate(std::ios::failbit);
  }
  return message;
}

MessagePair read_pair(std::istream& stream) {
  MessagePair pair;
  stream >> pair.rank >> pair.sent >> pair.received >> pair.last_tag;
  return pair;
}

OperationRecord read_call(std::istream& stream) {
  OperationRecord call;
  stream >> call.sequence;
  read_value(stream, call.kind, kOperationKinds);
  read_type(stream, call.type);
  read_value(stream, call.op, element::kReduceOps);
  read_value(stream, call.state, kOperationStates);
  stream >> call.other >> call.count >> call.counts_hash >> call.step >> call.waits_for;
  return call;
}

}  // namespace

RankNews RankNews::read(std::span<const std::byte> recorder, const MessageBook& messages, int64_t now) {
  RankNews news;
  news.messages = newest(messages.read(now), now);
  news.calls = snapshot(recorder).operations;
  std::erase_if(news.calls, [](const OperationRecord& record) { return !is_collective(record.kind); });
  if (news.calls.size() > kCalls) news.calls.erase(news.calls.begin(), news.calls.end() - kCalls);
  if (news.calls.empty()) return news;
  const OperationRecord& last = news.calls.back();
  const bool is_over = last.state == OperationState::done;
  if (!is_over || last.end != 0) news.since = std::max<int64_t>(0, now - (is_over ? last.end : last.begin));
  return news;
}

std::string RankNews::encode() const {
  std::ostringstream text;
  text << since;
  for (const OperationRecord& call : calls) {
    text << '\n'
         << call.sequence << ' ' << static_cast<size_t>(call.kind) << ' ' << size_t{call.type.number()} << ' '
         << static_cast<size_t>(call.op) << ' ' << static_cast<size_t>(call.state) << ' ' << call.other << ' '
         << call.count << ' ' << call.counts_hash << ' ' << call.step << ' ' << call.waits_for;
  }
  for (const MessageRecord& message : messages.messages) {
    text << "\nm " << message.number << ' ' << message.is_send << ' ' << static_cast<size_t>(message.type) << ' '
         << static_cast<size_t>(message.state) << ' ' << message.peer << ' ' << message.tag << ' ' << message.count
         << ' ' << message.awaited_since;
  }
  for (const MessagePair& pair : messages.pairs) {
    text << "\np " << pair.rank << ' ' << pair.sent << ' ' << pair.received << ' ' << pair.last_tag;
  }
  return text.str();
}

RankNews RankNews::decode(std::string_view text) {
  std::istringstream stream{std::string(text)};
  RankNews news;
  stream >> news.since;
  // Each line goes on to its last word, so that the next begins with the mark of its kind.
  while (stream && !stream.eof()) {
    const int mark = (stream >> std::ws).peek();
    if (mark == 'm' || mark == 'p') stream.get();
    if (mark == 'm' && news.messages.messages.size() < kMessages) {
      news.messages.messages.push_back(read_message(stream));
    } else if (mark == 'p' && news.messages.pairs.size() < kPairs) {
      news.messages.pairs.push_back(read_pair(stream));
    } else if (mark != 'm' && mark != 'p' && news.calls.size() < kCalls) {
      news.calls.push_back(read_call(stream));
    } else {
      return {};
    }
  }
  return stream && stream.eof() ? news : RankNews();
}

RankState RankNews::state(uint32_t rank, Health health) const {
  RankState state{.rank = rank, .health = health};
  state.messages = &messages;
  if (calls.empty()) return state;
  const OperationRecord& last = calls.back();
  state.sequence = last.sequence;
  state.state = last.state;
  state.step = last.step;
  state.since = since;
  state.operation = &last;
  if (state.is_inside()) state.waits_for = last.waits_for;
  return state;
}

}  // namespace banyan::run
