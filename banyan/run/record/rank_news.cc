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

RankNews RankNews::read(std::span<const std::byte> recorder, int64_t now) {
  RankNews news;
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
  return text.str();
}

RankNews RankNews::decode(std::string_view text) {
  std::istringstream stream{std::string(text)};
  RankNews news;
  stream >> news.since;
  while (stream && !stream.eof() && news.calls.size() < kCalls) news.calls.push_back(read_call(stream));
  return stream && stream.eof() ? news : RankNews();
}

RankState RankNews::state(uint32_t rank, Health health) const {
  RankState state{.rank = rank, .health = health};
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
