#include "banyan/service/cluster/card_cache.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/text.h"
#include "banyan/run/system/thread.h"

namespace banyan::service {

// What the directory has said to a question, or why it has not.
struct CardCache::Answer {
  HostCards read;
  std::set<std::string> without;  // hosts that were asked for and have no card
  bool is_of_all = false;
  std::optional<Error> failure;
};

// One thread, which has the directory. It begins with the first task.
struct CardCache::Thread {
  explicit Thread(std::unique_ptr<HostDirectory> asked) : directory(std::move(asked)) {}
  ~Thread() {
    {
      const std::lock_guard lock(mutex);
      tasks.clear();
      stops = true;
    }
    changed.notify_one();
    if (thread.joinable()) thread.join();
    if (is_left) directory->leave();  // the task may have been one of those that nobody carried out
  }
  void post(std::function<void()> task) {
    if (!thread.joinable()) thread = run::start_thread("banyan-cards", [this] { carry_out(); });
    {
      const std::lock_guard lock(mutex);
      tasks.push_back(std::move(task));
    }
    changed.notify_one();
  }
  void carry_out() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return stops || !tasks.empty(); });
      if (stops) return;
      const std::function<void()> task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  const std::unique_ptr<HostDirectory> directory;
  std::mutex mutex;  // protects what follows
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool stops = false;
  bool is_left = false;  // of the owner, as the thread is
  std::thread thread;
};

CardCache::CardCache(run::Reactor& reactor, std::unique_ptr<HostDirectory> directory, std::string name, Hooks hooks)
    : reactor_(reactor),
      name_(std::move(name)),
      hooks_(std::move(hooks)),
      thread_(std::make_unique<Thread>(std::move(directory))) {}

CardCache::~CardCache() {
  if (overdue_) reactor_.cancel(*overdue_);
  if (again_) reactor_.cancel(*again_);
}

// ---- What is known ----

const HostCard* CardCache::find(const std::string& host) const {
  const auto found = cards_.find(host);
  return found == cards_.end() ? nullptr : &found->second;
}

// ---- Questions ----

void CardCache::look(const std::vector<std::string>& hosts, Then then) {
  if (!next_) next_.emplace();
  next_->hosts.insert(hosts.begin(), hosts.end());
  next_->is_for_all |= hosts.empty() || next_->hosts.size() > kFew;
  next_->waiting.push_back(std::move(then));
  const bool is_away = !trouble_.empty();
  if (!overdue_)
    overdue_ = reactor_.after(is_away ? std::chrono::milliseconds(0) : kPatience, [this] { be_overdue(); });
  if (!asked_) ask();
}

void CardCache::look_if_old(const Then& then) {
  if (looked_at_ && reactor_.now() - *looked_at_ < kOld) return then();
  look({}, then);
}

void CardCache::ask() {
  asked_ = std::exchange(next_, std::nullopt);
  asked_->begun = reactor_.now();
  if (asked_->is_for_all) looked_at_ = asked_->begun;
  thread_->post([this, hosts = asked_->hosts, is_for_all = asked_->is_for_all, mailbox = reactor_.mailbox()] {
    auto answer = std::make_shared<Answer>();
    answer->is_of_all = is_for_all;
    try {
      if (is_for_all) answer->read = thread_->directory->cards();
      for (const std::string& host : is_for_all ? std::set<std::string>() : hosts) {
        try {
          std::optional<HostCard> card = thread_->directory->find(host);
          if (card)
            answer->read.cards.push_back(*std::move(card));
          else
            answer->without.insert(host);
        } catch (const Error& error) {
          if (error.code() != ErrorCode::invalid_input) throw;
          answer->read.unread.emplace(host, error.what());
        }
      }
    } catch (...) {
      answer->failure = current_error();
    }
    mailbox->post([this, answer] { receive(*answer); });
  });
}

void CardCache::receive(const Answer& answer) {
  take(answer);
  std::vector<Then> waiting = std::move(asked_->waiting);
  asked_.reset();
  if (!next_ && overdue_) reactor_.cancel(*std::exchange(overdue_, std::nullopt));
  if (next_) ask();
  call_back(std::move(waiting));
}

void CardCache::take(const Answer& answer) {
  if (answer.failure) return be_in_trouble(answer.failure->what());
  if (!std::exchange(trouble_, "").empty()) hooks_.record(name_ + " answers again");
  record_unread(answer.read.unread);
  if (answer.is_of_all) {
    cards_.clear();
    unread_.clear();
  }
  for (const std::string& host : answer.without) {
    cards_.erase(host);
    unread_.erase(host);
  }
  unread_.insert(answer.read.unread.begin(), answer.read.unread.end());
  for (const HostCard& card : answer.read.cards) {
    unread_.erase(card.host);
    cards_.insert_or_assign(card.host, card);
  }
  // The directory may have been asked before it had this one.
  if (own_ && !is_put_) cards_.insert_or_assign(own_->host, *own_);
  for (const HostCard& card : answer.read.cards) hooks_.found(card);
}

// In one line for all that are new: whoever writes to the directory may have made up many.
void CardCache::record_unread(const std::map<std::string, std::string>& unread) {
  size_t others = 0;
  std::string words;
  for (const auto& [host, why] : unread) {
    cards_.erase(host);
    if (unread_.contains(host)) continue;
    if (words.empty()) {
      words = "the card of host " + in_quotes(host) + " cannot be read: " + why;
    } else {
      ++others;
    }
  }
  if (others > 0) words += " (and " + plural(others, "other card") + ")";
  if (!words.empty()) hooks_.record(words);
}

void CardCache::be_in_trouble(const std::string& why) {
  const bool is_new = trouble_.empty();
  trouble_ = name_ + " does not answer; hosts are taken to be where they were last: " + why;
  if (is_new) hooks_.record(trouble_);
}

void CardCache::be_overdue() {
  overdue_.reset();
  if (asked_ && reactor_.now() - asked_->begun >= kPatience) be_in_trouble("a question takes more than a second");
  std::vector<Then> waiting;
  for (std::optional<Question>* const question : {&asked_, &next_}) {
    if (!*question) continue;
    for (Then& then : (*question)->waiting) waiting.push_back(std::move(then));
    (*question)->waiting.clear();
  }
  call_back(std::move(waiting));
}

// Each once, whatever the others throw.
void CardCache::call_back(std::vector<Then> waiting) {
  for (Then& then : waiting) {
    if (then) reactor_.after({}, std::move(then));
  }
}

// ---- The own card ----

void CardCache::publish(const HostCard& card) {
  own_ = card;
  is_put_ = false;
  cards_.insert_or_assign(card.host, card);
  put();
}

void CardCache::put() {
  if (again_) reactor_.cancel(*std::exchange(again_, std::nullopt));
  if (!own_ || is_put_) return;
  thread_->post([this, card = *own_, mailbox = reactor_.mailbox()] {
    auto answer = std::make_shared<Answer>();
    try {
      thread_->directory->publish(card);
    } catch (...) {
      answer->failure = current_error();
    }
    mailbox->post([this, answer, incarnation = card.encode()] {
      if (!own_ || own_->encode() != incarnation) return;  // there is a newer one
      is_put_ = !answer->failure;
      take(*answer);
      if (!is_put_) again_ = reactor_.after(kAgain, [this] { put(); });
    });
  });
}

void CardCache::leave() {
  own_.reset();
  thread_->is_left = true;
  thread_->post([this] { thread_->directory->leave(); });
}

void CardCache::begin(const HostCard& card) {
  own_ = card;
  is_put_ = false;
  cards_.insert_or_assign(card.host, card);
  Answer answer{.read = {}, .without = {}, .is_of_all = true, .failure = {}};
  try {
    thread_->directory->publish(card);
    is_put_ = true;
    looked_at_ = reactor_.now();
    answer.read = thread_->directory->cards();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::invalid_input) throw;
    answer.failure = error;
  }
  take(answer);
  if (!is_put_) again_ = reactor_.after(kAgain, [this] { put(); });
}

std::string name_of_directory(const std::string& url) {
  constexpr std::string_view kFolder = "file://";
  if (url.starts_with(kFolder)) return "the folder " + url.substr(kFolder.size());
  return url.empty() ? "this host" : "etcd";
}

}  // namespace banyan::service
