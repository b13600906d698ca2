#include "banyan/run/communicator/statistics.h"

#include <atomic>
#include <utility>

#include "banyan/run/record/log.h"

namespace banyan::run {
namespace {

std::atomic<StatisticsBoard*> current_board{nullptr};
std::atomic<StatisticsBoard::Listener*> board_listener{nullptr};

}  // namespace

Statistics& Statistics::operator+=(const Statistics& other) {
  calls += other.calls;
  sent.tcp += other.sent.tcp;
  sent.shared_memory += other.sent.shared_memory;
  sent.ucx += other.sent.ucx;
  reroutes += other.reroutes;
  revisions += other.revisions;
  lost_peers += other.lost_peers;
  for (const auto& [code, count] : other.failures) failures[code] += count;
  living += other.living;
  return *this;
}

// Boards are never freed: threads may read them until the very end of the process, and entries of the parent's board go
// in forked processes, too.
StatisticsBoard& StatisticsBoard::of_process() {
  StatisticsBoard* board = current_board.load(std::memory_order_acquire);
  while (board == nullptr || board->fork_guard_.is_in_child()) {
    auto fresh = std::make_unique<StatisticsBoard>();
    if (current_board.compare_exchange_strong(board, fresh.get())) return *fresh.release();
  }
  return *board;
}

void StatisticsBoard::set_listener(Listener* listener) { board_listener = listener; }

StatisticsBoard::Entry StatisticsBoard::enter(const std::string& name, const JobPlace& place,
                                              std::function<Statistics()> read) {
  std::list<Living>::iterator living;
  {
    const std::lock_guard lock(mutex_);
    living = living_.insert(living_.end(), {.name = name, .read = std::move(read)});
    place_ = place;
  }
  Entry entry(this, [this, living](void*) { leave(living); });
  if (Listener* const listener = board_listener.load()) listener->began(place);
  return entry;
}

void StatisticsBoard::leave(std::list<Living>::iterator living) noexcept {
  if (fork_guard_.is_in_child()) return;
  {
    const std::lock_guard lock(mutex_);
    try {
      add_to_ended(living->name, living->read());
    } catch (...) {  // the sums lack it
      BANYAN_LOG(info) << "the statistics of communicator '" << living->name << "' are lost";
    }
    living_.erase(living);
  }
  if (Listener* const listener = board_listener.load()) listener->ended();
}

// Under the mutex.
void StatisticsBoard::add_to_ended(const std::string& name, Statistics last) {
  last.living = 0;
  const bool is_known = ended_.contains(name) || ended_.size() < kMostNames;
  const auto [sum, is_new] = ended_.try_emplace(is_known ? name : kOthers, last);
  if (!is_new) sum->second += last;
}

std::map<std::string, Statistics> StatisticsBoard::read() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, Statistics> all = ended_;
  for (const Living& living : living_) {
    const Statistics now = living.read();
    const auto [sum, is_new] = all.try_emplace(living.name, now);
    if (!is_new) sum->second += now;
  }
  return all;
}

std::optional<JobPlace> StatisticsBoard::place() const {
  const std::lock_guard lock(mutex_);
  return place_;
}

}  // namespace banyan::run
