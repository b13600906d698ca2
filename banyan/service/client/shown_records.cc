#include "banyan/service/client/shown_records.h"

#include <condition_variable>
#include <iterator>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "banyan/run/system/fork_guard.h"
#include "banyan/run/system/thread.h"

namespace banyan::service {

struct ShownRecords::Board {
  struct Entry {
    ShowRecord record;
    run::FileDescriptor memory;
    std::shared_ptr<const void> at_daemon = {};  // null: it is still to be shown
  };

  explicit Board(std::function<std::shared_ptr<Attachment>()> way) : attach(std::move(way)) {}
  void run() noexcept;
  void show_all(const std::shared_ptr<Attachment>& present);

  const std::function<std::shared_ptr<Attachment>()> attach;
  const run::ForkGuard fork_guard;
  std::mutex mutex;  // protects what follows
  std::condition_variable changed;
  std::list<Entry> entries;
  std::shared_ptr<Attachment> attachment;  // to the daemon that has been shown the entries
  bool has_new = false, stops = false;
  std::thread thread;
};

ShownRecords::ShownRecords(std::function<std::shared_ptr<Attachment>()> attach)
    : board_(new Board(std::move(attach)), [](Board* board) {
        // The thread and the attachment are the parent's.
        if (!board->fork_guard.is_in_child()) delete board;
      }) {}

ShownRecords::~ShownRecords() {
  if (board_->fork_guard.is_in_child()) return;
  {
    const std::lock_guard lock(board_->mutex);
    board_->stops = true;
    board_->changed.notify_all();
  }
  if (board_->thread.joinable()) board_->thread.join();
  const std::lock_guard lock(board_->mutex);
  board_->attachment = nullptr;
  for (Board::Entry& each : board_->entries) each.at_daemon = nullptr;
}

std::shared_ptr<const void> ShownRecords::show(ShowRecord record, run::FileDescriptor memory) {
  const std::lock_guard lock(board_->mutex);
  if (!board_->thread.joinable()) {
    board_->thread = run::start_thread("banyan-records", [board = board_.get()] { board->run(); });
  }
  board_->entries.push_back({.record = std::move(record), .memory = std::move(memory)});
  board_->has_new = true;
  board_->changed.notify_all();
  return {&board_->entries.back(), [board = board_, place = std::prev(board_->entries.end())](const void*) {
            if (board->fork_guard.is_in_child()) return;
            const std::lock_guard own_lock(board->mutex);
            board->entries.erase(place);
          }};
}

// ---- The thread ----

void ShownRecords::Board::run() noexcept {
  std::unique_lock lock(mutex);
  while (!stops) {
    std::shared_ptr<Attachment> present;
    if (!entries.empty()) {
      lock.unlock();
      try {
        present = attach();
      } catch (...) {
        // There is none now; one may come.
      }
      lock.lock();
    }
    has_new = false;
    if (present) show_all(present);
    present = nullptr;
    const auto shall_wake = [this] { return stops || has_new; };
    if (entries.empty()) {
      changed.wait(lock, shall_wake);
    } else {
      changed.wait_for(lock, kPause, shall_wake);
    }
  }
}

// Under the mutex.
void ShownRecords::Board::show_all(const std::shared_ptr<Attachment>& present) {
  const bool is_other = present != attachment;
  attachment = present;
  for (Entry& each : entries) {
    if (!is_other && each.at_daemon) continue;
    each.at_daemon = nullptr;
    try {
      each.at_daemon = present->show(each.record, each.memory);
    } catch (...) {
      // This process has no descriptor left for it; the next round may find one.
    }
  }
}

}  // namespace banyan::service
