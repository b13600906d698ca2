#include "banyan/run/agent/links.h"

#include <algorithm>
#include <array>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/join/wire.h"

namespace banyan::run {
namespace {

// A frame: length of the body, kind, number, number of the last message that the sender has from the receiver; the
// body. A frame of kind kConfirmation carries no message.
constexpr size_t kHeadBytes = 4 + 1 + 8 + 8;
constexpr uint8_t kConfirmation = 0;
constexpr uint64_t kConfirmEvery = 64;
constexpr std::chrono::milliseconds kFirstPause{5}, kLongestPause{500};
constexpr uint32_t kMostHangUps = 4;

}  // namespace

Links::Links(Timers& timers, Dialer& dialer, Options options, Events events)
    : timers_(timers), dialer_(dialer), options_(options), entries_(options.size), events_(std::move(events)) {}

Links::~Links() {
  for (Entry& entry : entries_) drop(entry);
}

// ---- Sending ----

void Links::send(uint32_t rank, Message message) {
  Entry& entry = entries_[rank];
  if (entry.is_closed || rank == options_.own) return;
  if (entry.unconfirmed_bytes + message.body.size() > kMaxQueued) return;
  entry.unconfirmed_bytes += message.body.size();
  entry.unconfirmed.push_back(std::move(message));
  if (entry.links.empty()) {
    call(rank);
    return;
  }
  Link& link = *entry.links.front();
  write(entry, link, entry.first_unconfirmed + entry.unconfirmed.size() - 1, entry.unconfirmed.back());
  flush(link);
}

void Links::write(Entry& entry, Link& link, uint64_t number, const Message& message) {
  link.out += WireWriter()
                  .number(static_cast<uint32_t>(message.body.size()))
                  .number(message.kind)
                  .number(number)
                  .number(entry.received)
                  .take();
  link.out += message.body;
  entry.confirmed = entry.received;
}

void Links::confirm(Entry& entry) {
  Link& link = *entry.links.front();
  write(entry, link, 0, {.kind = kConfirmation, .body = ""});
  flush(link);
}

// By a link that is the first from now on. The confirmation also says that this rank knows the peer, so that a link that
// breaks before a word is one on which the peer has hung up.
void Links::send_unconfirmed(Entry& entry) {
  confirm(entry);
  Link& link = *entry.links.front();
  uint64_t number = entry.first_unconfirmed;
  for (const Message& message : entry.unconfirmed) write(entry, link, number++, message);
  flush(link);
}

// A broken link is found out by reading.
void Links::flush(Link& link) {
  size_t done = 0;
  while (done < link.out.size()) {
    const size_t sent = link.stream->send(std::string_view(link.out).substr(done));
    if (sent == 0) break;
    done += sent;
  }
  link.out.erase(0, done);
  if (link.awaits_room == !link.out.empty()) return;
  link.awaits_room = !link.out.empty();
  link.stream->await_room(link.awaits_room);
}

// ---- Calling ----

void Links::call(uint32_t rank) {
  Entry& entry = entries_[rank];
  if (entry.is_closed || !entry.links.empty() || entry.call || entry.pause) return;
  entry.next_pause = kFirstPause;
  entry.calling_since = timers_.now();
  call_now(rank);
}

void Links::call_now(uint32_t rank) {
  Entry& entry = entries_[rank];
  entry.pause.reset();
  entry.call = dialer_.dial(rank, [this, rank](Dialer::Outcome outcome) { call_ended(rank, std::move(outcome)); });
}

void Links::call_ended(uint32_t rank, Dialer::Outcome outcome) {
  Entry& entry = entries_[rank];
  entry.call.reset();
  if (outcome.stream != nullptr) {
    try {
      adopt(rank, std::move(outcome.stream));
      return;
    } catch (const Error& error) {  // no descriptors left
      outcome.failure = error.what();
    }
  }
  entry.trouble = outcome.failure;
  if (entry.links.empty()) call_again(rank, outcome.nobody_listens);  // else it has called this rank meanwhile
}

void Links::call_again(uint32_t rank, bool nobody_listens) {
  Entry& entry = entries_[rank];
  if (nobody_listens || entry.will_end || timers_.now() - entry.calling_since > options_.lost_after) {
    lose(rank,
         entry.break_reason.empty() ? "it cannot be reached (" + entry.trouble + ")" : std::string(entry.break_reason));
    return;
  }
  entry.pause = timers_.after(entry.next_pause, [this, rank] { call_now(rank); });
  entry.next_pause = std::min(entry.next_pause * 2, kLongestPause);
}

bool Links::adopt(uint32_t rank, std::unique_ptr<ByteStream> stream) {
  Entry& entry = entries_[rank];
  if (entry.is_closed) return false;
  const auto link = std::make_shared<Link>();
  link->stream = std::move(stream);
  link->stream->watch([this, rank, weak = std::weak_ptr(link)](bool may_receive, bool may_send) {
    if (const auto served = weak.lock()) serve(rank, served, may_receive, may_send);
  });
  entry.links.push_back(link);
  if (entry.links.size() > 1) return true;
  end_pause(entry);
  entry.break_reason.clear();
  send_unconfirmed(entry);
  events_.linked(rank);
  return true;
}

void Links::close(uint32_t rank) {
  entries_[rank].is_closed = true;
  drop(entries_[rank]);
}

// ---- Receiving ----

void Links::serve(uint32_t rank, const std::shared_ptr<Link>& link, bool may_receive, bool may_send) {
  if (link->stream == nullptr) return;
  if (may_send) flush(*link);
  if (!may_receive) return;
  if (const std::optional<std::string> broken = read(rank, link)) link_broke(rank, link, *broken);
}

std::optional<std::string> Links::read(uint32_t rank, const std::shared_ptr<Link>& link) {
  std::array<char, 16384> buffer;
  while (link->stream != nullptr) {  // a message may make this rank close it
    const ByteStream::Received received = link->stream->receive(buffer);
    if (received.is_over) return received.why;
    if (received.count == 0) break;
    link->in.append(buffer.data(), received.count);
    if (std::optional<std::string> broken = deliver(rank, link)) return broken;
  }
  Entry& entry = entries_[rank];
  if (!entry.links.empty() && entry.received - entry.confirmed >= kConfirmEvery) confirm(entry);
  return {};
}

std::optional<std::string> Links::deliver(uint32_t rank, const std::shared_ptr<Link>& link) {
  size_t begin = 0;
  std::optional<std::string> broken;
  while (link->in.size() - begin >= kHeadBytes && link->stream != nullptr) {
    WireReader head(std::string_view(link->in).substr(begin, kHeadBytes));
    const size_t size = head.number<uint32_t>();
    const uint8_t kind = head.number<uint8_t>();
    const uint64_t number = head.number<uint64_t>(), confirmed = head.number<uint64_t>();
    if (size > kMaxMessage) {
      broken = "it sends nonsense";
      break;
    }
    if (link->in.size() - begin < kHeadBytes + size) break;
    Message message{.kind = kind, .body = link->in.substr(begin + kHeadBytes, size)};
    begin += kHeadBytes + size;
    link->has_received = true;
    entries_[rank].hang_ups = 0;
    try {
      forget_confirmed(entries_[rank], confirmed);
      if (kind != kConfirmation) take(rank, number, std::move(message));
    } catch (const Error& error) {
      broken = "it sends nonsense (" + error.message() + ")";
      break;
    }
  }
  link->in.erase(0, begin);
  if (broken) entries_[rank].will_end = true;  // it would do so again
  return broken;
}

void Links::take(uint32_t rank, uint64_t number, Message message) {
  Entry& entry = entries_[rank];
  if (number <= entry.received) return;  // sent once more, over a new connection
  if (number > entry.received + 1) throw Error(ErrorCode::invalid_input, "a message is missing");
  entry.received = number;
  events_.received(rank, std::move(message));
}

void Links::forget_confirmed(Entry& entry, uint64_t up_to) {
  if (up_to >= entry.first_unconfirmed + entry.unconfirmed.size()) {
    throw Error(ErrorCode::invalid_input, "it confirms what was not sent");
  }
  for (; entry.first_unconfirmed <= up_to; ++entry.first_unconfirmed) {
    entry.unconfirmed_bytes -= entry.unconfirmed.front().body.size();
    entry.unconfirmed.pop_front();
  }
}

// ---- Losing ----

void Links::link_broke(uint32_t rank, const std::shared_ptr<Link>& link, const std::string& why) {
  Entry& entry = entries_[rank];
  if (link->stream == nullptr) return;  // it was closed meanwhile
  const bool was_first = entry.links.front() == link;
  link->stream.reset();
  std::erase(entry.links, link);
  if (!link->has_received) ++entry.hang_ups;
  if (!entry.links.empty()) {
    if (!was_first) return;
    return send_unconfirmed(entry);  // the other link carries on
  }
  if (entry.will_end || entry.hang_ups >= kMostHangUps) return lose(rank, why);
  entry.break_reason = why;
  if (entry.hang_ups <= 1) {
    entry.next_pause = kFirstPause;
    entry.calling_since = timers_.now();
  }
  if (!entry.call && !entry.pause) call_again(rank, false);
}

void Links::lose(uint32_t rank, const std::string& why) {
  entries_[rank].is_closed = true;
  drop(entries_[rank]);
  events_.lost(rank, why);
}

void Links::end_pause(Entry& entry) {
  if (entry.pause) timers_.cancel(*entry.pause);
  entry.pause.reset();
}

void Links::drop(Entry& entry) {
  for (const std::shared_ptr<Link>& link : entry.links) link->stream.reset();
  entry.links.clear();
  entry.unconfirmed.clear();
  entry.unconfirmed_bytes = 0;
  if (entry.call) dialer_.cancel(*entry.call);
  entry.call.reset();
  end_pause(entry);
}

}  // namespace banyan::run
