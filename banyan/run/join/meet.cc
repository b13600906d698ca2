#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/base/json_line.h"
#include "banyan/base/json_reader.h"
#include "banyan/base/rank_list.h"
#include "banyan/run/join/reminder.h"
#include "banyan/run/join/rendezvous.h"

namespace banyan::run {
namespace {

// How long the others are given to say what they have decided, after the deadline.
constexpr std::chrono::milliseconds kGrace{2000};

// One meeting, as one process sees it. What happens, in this order, under keys with these names:
//
//   here, terms   counts all who come; the first writes down how many are expected, everybody else compares
//   all-here      is there when so many have come, whether they fit or not
//   seat-R, card-R  who is first of rank R writes its card; a second one is a mistake
//   came          counts those with a card; the last one has everything to write the verdict, and so has anybody when
//                 something is wrong or it is too late
//   closed        counts those who would write the verdict: the first does
//   verdict       the cards of all, or the error that all throw; also the last will of each, so that all learn who has
//                 ended while others had still to come
class Meeting {
 public:
  Meeting(Store& store, const EndpointRecord& own, uint32_t size, const Deadline& deadline, const std::string& prefix)
      : store_(store), own_(own), size_(size), deadline_(deadline), prefix_(prefix) {}

  std::vector<EndpointRecord> hold(const std::optional<Error>& trouble) {
    try {
      leave_will();
      compare_terms();
      if (trouble) refuse(Error(trouble->code(), who(own_) + " cannot join: " + trouble->what()));
      take_seat();
      if (add("came") == size_) close(roster());
      return cards_of(await_verdict());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::timed_out || is_verdict_) throw;
      if (deadline_.is_stopped()) refuse(Error(ErrorCode::aborted, who(own_) + " gave up joining, as it was told to"));
      return decide_late();
    } catch (...) {  // what somebody has raised who was asked while the store waited: a signal of Python
      give_up();
      throw;
    }
  }

 private:
  std::string key(const std::string& name) const { return prefix_ + name; }
  int64_t add(const std::string& name) { return store_.add(key(name), 1, deadline_); }
  std::string who(const EndpointRecord& card) const {
    return "rank " + std::to_string(card.rank) + " (" + card.described() + ")";
  }

  void leave_will();
  void compare_terms();
  void take_seat();
  std::string await(const std::string& name);
  std::string await_verdict();
  void remind(Reminder& reminder);
  std::vector<EndpointRecord> decide_late();
  std::string roster();
  static std::string failure(const Error& error) {
    JsonLine what;
    what.add("code", static_cast<int>(error.code())).add("message", error.message());
    return JsonLine().add("error", std::move(what)).take();
  }
  void close(const std::string& verdict) {
    if (store_.add(key("closed"), 1, late()) != 1) return;  // another one has decided already
    store_.set(key("verdict"), verdict, late());
  }
  // For the others, if they can be told.
  void give_up() noexcept {
    try {
      close(failure(Error(ErrorCode::aborted, who(own_) + " gave up joining, as it was told to")));
    } catch (...) {  // they learn from the store that it has gone, or at their deadline
      return;
    }
  }
  [[noreturn]] void refuse(const Error& error) {
    close(failure(error));
    cards_of(store_.get(key("verdict"), late()));  // throws: if not this error, then that of who was first
    is_verdict_ = true;
    throw error;
  }
  Deadline late() const { return deadline_.is_stopped() ? Deadline::after(kGrace) : deadline_.later(kGrace); }
  std::vector<EndpointRecord> cards_of(const std::string& verdict);

  Store& store_;
  const EndpointRecord& own_;
  const uint32_t size_;
  const Deadline deadline_;
  const std::string prefix_;
  bool is_verdict_ = false;  // the error that is thrown is known to all
};

void Meeting::leave_will() {
  const Error gone(ErrorCode::peer_lost,
                   who(own_) + " has ended, or given up, before all had come to " + store_.place());
  store_.leave_will({.counter = key("closed"), .key = key("verdict"), .value = failure(gone), .process = own_.member},
                    deadline_);
}

// Another rank is to write it, and may have ended before.
std::string Meeting::await(const std::string& name) {
  constexpr std::chrono::milliseconds kLookAfter{250};
  while (true) {
    try {
      return store_.get(key(name), deadline_.within(kLookAfter));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::timed_out || deadline_.has_passed()) throw;
    }
    if (const auto verdict = store_.try_get(key("verdict"), deadline_)) cards_of(*verdict);
  }
}

void Meeting::compare_terms() {
  const std::string own =
      JsonLine().add("size", size_).add("version", EndpointRecord::kVersion).add("who", who(own_)).take();
  const int64_t here = add("here");
  if (here == 1) store_.set(key("terms"), own, deadline_);
  const std::string terms = await("terms");
  uint32_t size = 0, version = 0;
  std::string first;
  try {
    const JsonDocument document(terms, {.name = "terms"});
    const JsonNode object = document.root();
    size = static_cast<uint32_t>(object.at("size").whole(0, UINT32_MAX));
    version = static_cast<uint32_t>(object.at("version").whole(0, UINT32_MAX));
    first = object.at("who").text();
  } catch (const Error& error) {
    throw Error(error.code(), "somebody wrote strange terms: " + error.message(), store_.place());
  }
  if (here == size) store_.set(key("all-here"), "", deadline_);
  if (version != EndpointRecord::kVersion) {
    refuse(Error(ErrorCode::mismatch, first + " brings a card of version " + std::to_string(version) + ", and " +
                                          who(own_) + " one of version " + std::to_string(EndpointRecord::kVersion) +
                                          "; run the same Banyan everywhere"));
  }
  if (size != size_) {
    refuse(Error(ErrorCode::mismatch, first + " expects " + std::to_string(size) + " ranks at " + store_.place() +
                                          ", and " + who(own_) + " expects " + std::to_string(size_)));
  }
}

void Meeting::take_seat() {
  const std::string rank = std::to_string(own_.rank);
  if (add("seat-" + rank) == 1) {
    store_.set(key("card-" + rank), own_.encode(), deadline_);
    return;
  }
  const EndpointRecord other = EndpointRecord::decode(await("card-" + rank));
  refuse(Error(ErrorCode::mismatch, "rank " + rank + " has come to " + store_.place() + " twice: " + other.described() +
                                        " and " + own_.described()));
}

std::string Meeting::await_verdict() {
  Reminder reminder(deadline_);
  while (true) {
    try {
      return store_.get(key("verdict"), reminder.until_next());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::timed_out || deadline_.has_passed()) throw;
    }
    if (reminder.is_due()) remind(reminder);
  }
}

// By the lowest rank that is here, so that a large job is not asked for all its cards by everybody.
void Meeting::remind(Reminder& reminder) {
  std::vector<uint32_t> absent;
  for (uint32_t rank = 0; rank < size_; ++rank) {
    const bool is_here = rank == own_.rank || store_.try_get(key("card-" + std::to_string(rank)), late()).has_value();
    if (!is_here) absent.push_back(rank);
    if (is_here && rank < own_.rank) return reminder.skip();
  }
  if (absent.empty()) return reminder.skip();
  reminder.log(list_ranks(absent) + " (of " + std::to_string(size_) + ") at " + store_.place());
}

// What there is to say about those who are here. Absent ones make it an error.
std::string Meeting::roster() {
  std::vector<std::string> cards;
  std::vector<uint32_t> absent;
  for (uint32_t rank = 0; rank < size_; ++rank) {
    if (const auto card = store_.try_get(key("card-" + std::to_string(rank)), late())) {
      cards.push_back(*card);  // as the text that it is: whatever it holds, nobody has to write it out again
    } else {
      absent.push_back(rank);
    }
  }
  if (absent.empty()) return JsonLine().add("cards", cards).take();
  return failure(Error(ErrorCode::timed_out, list_ranks(absent) + agree(absent, " have", " has") + " not come to " +
                                                 store_.place() + " within " + deadline_.text()));
}

std::vector<EndpointRecord> Meeting::decide_late() {
  const std::string verdict = roster();
  close(verdict);
  // Of whoever was first to decide; all read the same.
  return cards_of(store_.get(key("verdict"), late()));
}

std::vector<EndpointRecord> Meeting::cards_of(const std::string& verdict) {
  is_verdict_ = true;
  std::vector<EndpointRecord> cards;
  std::vector<std::string> texts;
  std::optional<Error> failure;
  try {
    const JsonDocument document(verdict, {.name = "verdict"});
    const JsonNode object = document.root();
    if (const std::optional<JsonNode> failed = object.find("error")) {
      const auto code = static_cast<ErrorCode>(failed->at("code").integer(0, INT32_MAX));
      const bool is_known = code <= ErrorCode::invalid_usage;
      failure = Error(is_known ? code : ErrorCode::mismatch, failed->at("message").text());
    } else {
      for (const JsonNode card : object.at("cards").items()) texts.push_back(card.text());
    }
  } catch (const Error& error) {
    throw Error(error.code(), "somebody wrote a strange verdict: " + error.message(), store_.place());
  }
  if (failure) throw Error(*failure);
  for (const std::string& text : texts) cards.push_back(EndpointRecord::decode(text));
  for (uint32_t rank = 0; rank < cards.size(); ++rank) {
    if (cards[rank].rank != rank || cards.size() != size_) {
      throw Error(ErrorCode::invalid_input, "somebody wrote a strange verdict", store_.place());
    }
  }
  return cards;
}

}  // namespace

std::vector<EndpointRecord> meet(Store& store, const EndpointRecord& own, uint32_t size, const Deadline& deadline,
                                 const std::string& prefix, const std::optional<Error>& trouble) {
  CHECK(own.rank < size) << "rank " << own.rank << " of " << size;
  return Meeting(store, own, size, deadline, prefix).hold(trouble);
}

MeetingView look_at_meeting(Store& store, const Deadline& deadline, const std::string& prefix) {
  MeetingView view;
  const std::optional<std::string> terms = store.try_get(prefix + "terms", deadline);
  if (!terms) return view;
  const JsonDocument document(*terms, {.name = "terms"});
  view.size = static_cast<uint32_t>(document.root().at("size").whole(0, UINT32_MAX));
  for (uint32_t rank = 0; rank < view.size; ++rank) {
    if (const auto card = store.try_get(prefix + "card-" + std::to_string(rank), deadline)) {
      view.here.push_back(EndpointRecord::decode(*card));
    } else {
      view.absent.push_back(rank);
    }
  }
  return view;
}

void await_latecomers(Store& store, std::chrono::milliseconds patience, const Deadline& deadline,
                      const std::string& prefix) {
  const auto all_are_here = [&] {
    try {
      store.get(prefix + "all-here", deadline.within(patience));
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::timed_out) throw;
      return false;
    }
  };
  for (int64_t before = -1; !deadline.has_passed();) {
    const int64_t here = store.add(prefix + "here", 0, deadline);
    if (std::exchange(before, here) == here || all_are_here()) return;
  }
}

}  // namespace banyan::run
