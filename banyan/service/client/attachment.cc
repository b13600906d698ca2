#include "banyan/service/client/attachment.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "banyan/run/record/log.h"
#include "banyan/run/system/shared_memory.h"
#include "banyan/run/system/system_error.h"
#include "banyan/service/client/control_connection.h"
#include "banyan/service/client/session_slots.h"

namespace banyan::service {
namespace {

constexpr size_t kPage = 4096;
constexpr std::chrono::seconds kOfferTime{30};

run::FileDescriptor another(int fd) {
  run::FileDescriptor copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.is_open()) throw run::system_error("cannot pass on shared memory");
  return copy;
}

// Of an answer that does not grant what was wished.
Error refusal(const DaemonMessage& answer) {
  if (const Refused* const refused = std::get_if<Refused>(&answer)) return refused->error;
  return Error(ErrorCode::mismatch, "the service answers what it was not asked");
}

// The hooks of a session, until they are taken away.
class HookHolder {
 public:
  explicit HookHolder(Attachment::Hooks hooks) : hooks_(std::move(hooks)) {}

  // Whether the peers are to be told.
  bool fail(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(has_failed_, true) || !hooks_.failed) return false;
    hooks_.failed(error);
    return hooks_.tell_peers != nullptr;
  }
  void tell_peers(const Error& error) {
    const std::lock_guard lock(mutex_);
    try {
      if (hooks_.tell_peers) hooks_.tell_peers(error);
    } catch (...) {
      BANYAN_LOG(warning) << "the other ranks could not be told: " << error.what();
    }
  }
  void succeed() {
    const std::lock_guard lock(mutex_);
    if (hooks_.succeeded) hooks_.succeeded();
  }
  // Waits for the one that runs.
  void end() {
    const std::lock_guard lock(mutex_);
    hooks_ = {};
  }

 private:
  std::mutex mutex_;  // held while a hook runs
  Attachment::Hooks hooks_;
  bool has_failed_ = false;
};

}  // namespace

class Attachment::Impl : public std::enable_shared_from_this<Attachment::Impl> {
 public:
  Impl(const std::string& url, run::RegionPool& pool, const run::Deadline& deadline)
      : url_(url),
        pool_(pool),
        doorbell_(run::SharedMemory::with_pages(kPage)),
        greeting_(greet(url, doorbell_.fd(), deadline)),
        slots_([this](size_t size) { return allocate(size); }),
        connection_(std::move(greeting_.socket), url,
                    {.session_failed = [this](const SessionFailed& failed) { session_failed(failed); },
                     .succeeded = [this] { all_succeeded(); },
                     .gone = [this](const Error& error) { all_failed(error); }}) {}

  const std::string& url() const { return url_; }
  const Welcome& welcome() const { return greeting_.welcome; }
  ControlConnection& connection() { return connection_; }
  SessionSlots& slots() { return slots_; }

  std::optional<Named> name(const void* begin, size_t bytes);
  Memory allocate(size_t bytes);
  std::unique_ptr<Session::Impl> open(OpenSession wish, Hooks hooks, const run::Deadline& deadline);
  void ring(uint32_t session);
  void forget_hooks(uint32_t session);
  std::shared_ptr<const void> show(ShowRecord record, const run::FileDescriptor& memory);

 private:
  struct OfferedRegion {
    const std::byte* begin = nullptr;
    std::shared_ptr<const Offered> offer;  // null: it was offered to a daemon before, and calls copy
  };

  std::shared_ptr<const Offered> offer(run::FileDescriptor file, run::SharedMemory memory, uint64_t bytes);
  std::shared_ptr<const Offered> offer_region(run::RegionId region, const std::byte* begin);
  std::optional<std::shared_ptr<const Offered>> find_offer(run::RegionId region) const;
  void forget_freed();
  void session_failed(const SessionFailed& failed);
  void all_failed(const Error& error);
  void all_succeeded();
  std::vector<std::shared_ptr<HookHolder>> all_hooks();

  const std::string url_;
  run::RegionPool& pool_;
  const run::SharedMemory doorbell_;
  Greeting greeting_;
  std::mutex offering_;                     // held by who offers a region of the pool, so that each is offered once
  mutable std::shared_mutex offers_mutex_;  // protects offered_
  std::unordered_map<run::RegionId, OfferedRegion> offered_;
  std::mutex hooks_mutex_;  // protects hooks_
  std::map<uint32_t, std::shared_ptr<HookHolder>> hooks_;
  std::atomic<uint32_t> next_record_{0};
  SessionSlots slots_;
  ControlConnection connection_;  // the last: its thread uses the others
};

class Attachment::Offered {
 public:
  Offered(std::weak_ptr<Impl> impl, RegionTable::Place place, run::SharedMemory memory)
      : impl_(std::move(impl)), place_(place), memory_(std::move(memory)) {}
  ~Offered() {
    if (const std::shared_ptr<Impl> impl = impl_.lock()) impl->connection().tell(WithdrawRegion{.place = place_});
  }
  Offered(const Offered&) = delete;
  Offered& operator=(const Offered&) = delete;

  std::byte* data() const { return memory_.data(); }
  BufferName name(uint64_t offset) const {
    return {.region = place_.index, .generation = place_.generation, .offset = offset};
  }

 private:
  const std::weak_ptr<Impl> impl_;
  const RegionTable::Place place_;
  const run::SharedMemory memory_;  // none for a region of the pool
};

class Attachment::Session::Impl {
 public:
  Impl(std::shared_ptr<Attachment::Impl> attachment, SessionSlots::Slot slot, std::string means)
      : attachment_(std::move(attachment)), slot_(slot), means_(std::move(means)) {}
  ~Impl() {
    if (attachment_->connection().is_in_child()) return;  // it is the parent's
    attachment_->forget_hooks(slot_.number);
    close();
    attachment_->slots().retire(slot_.number, told_after_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  SessionPage& page() const { return *slot_.page; }
  const std::string& means() const { return means_; }
  void ring() { attachment_->ring(slot_.number); }

  void tell_gone(uint32_t rank) {
    attachment_->connection().expect_own_process();
    const std::lock_guard lock(mutex_);
    if (!is_closed_) attachment_->connection().tell(RankGone{.session = slot_.number, .rank = rank});
  }
  void close() {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_closed_, true)) return;
    told_after_ = attachment_->connection().tell(CloseSession{.session = slot_.number});
  }

 private:
  const std::shared_ptr<Attachment::Impl> attachment_;  // shared with the other sessions
  const SessionSlots::Slot slot_;
  const std::string means_;
  std::mutex mutex_;  // protects what follows
  bool is_closed_ = false;
  uint64_t told_after_ = 0;
};

// ---- Memory ----

std::shared_ptr<const Attachment::Offered> Attachment::Impl::offer(run::FileDescriptor file, run::SharedMemory memory,
                                                                   uint64_t bytes) {
  const auto withdraw = [this](const DaemonMessage& late) {
    if (const auto* const placed = std::get_if<RegionPlaced>(&late)) {
      connection_.tell(WithdrawRegion{.place = placed->place});
    }
  };
  const DaemonMessage answer =
      connection_.ask(OfferRegion{.bytes = bytes}, std::move(file), run::Deadline::after(kOfferTime), withdraw);
  const auto* const placed = std::get_if<RegionPlaced>(&answer);
  if (placed == nullptr) throw refusal(answer);
  return std::make_shared<const Offered>(weak_from_this(), placed->place, std::move(memory));
}

std::optional<Attachment::Named> Attachment::Impl::name(const void* begin, size_t bytes) {
  connection_.expect_own_process();
  const run::RegionPlace place = pool_.find(begin, bytes);
  if (place.region == 0) return std::nullopt;
  const auto known = find_offer(place.region);
  std::shared_ptr<const Offered> offer =
      known ? *known : offer_region(place.region, static_cast<const std::byte*>(begin) - place.offset);
  if (!offer) return std::nullopt;
  const BufferName name = offer->name(place.offset);
  return Named{.name = name, .offer = std::move(offer)};
}

// Nothing where it was not tried yet.
std::optional<std::shared_ptr<const Attachment::Offered>> Attachment::Impl::find_offer(run::RegionId region) const {
  const std::shared_lock lock(offers_mutex_);
  const auto found = offered_.find(region);
  return found == offered_.end() ? std::nullopt : std::optional(found->second.offer);
}

// Null when it has just been freed, and when it was offered before, to another daemon or in vain (region.h).
std::shared_ptr<const Attachment::Offered> Attachment::Impl::offer_region(run::RegionId region,
                                                                          const std::byte* begin) {
  const std::lock_guard turn(offering_);
  if (const auto known = find_offer(region)) return *known;
  forget_freed();
  std::optional<run::RegionPool::File> file = pool_.file_of(region);
  if (!file) return nullptr;
  const int seals = fcntl(file->fd.get(), F_GET_SEALS);
  std::shared_ptr<const Offered> offer;
  if (seals >= 0 && (seals & F_SEAL_FUTURE_WRITE) == 0) offer = this->offer(std::move(file->fd), {}, file->bytes);
  const std::unique_lock lock(offers_mutex_);
  offered_.emplace(region, OfferedRegion{.begin = begin, .offer = offer});
  return offer;
}

// Calls under way may own their offers still.
void Attachment::Impl::forget_freed() {
  std::vector<std::shared_ptr<const Offered>> freed;  // withdrawn without the lock
  const std::unique_lock lock(offers_mutex_);
  std::erase_if(offered_, [&](auto& entry) {
    auto& [region, offered] = entry;
    if (pool_.find(offered.begin, 1).region == region) return false;
    if (offered.offer) freed.push_back(std::move(offered.offer));
    return true;
  });
}

Attachment::Memory Attachment::Impl::allocate(size_t bytes) {
  connection_.expect_own_process();
  if (bytes > SIZE_MAX / 2) {
    throw Error(ErrorCode::io, "no machine has " + std::to_string(bytes) + " bytes of memory to share");
  }
  run::SharedMemory memory = run::SharedMemory::with_pages((std::max<size_t>(bytes, 1) + kPage - 1) / kPage * kPage);
  run::FileDescriptor file = memory.take_file();
  const uint64_t size = memory.size();
  auto offer = this->offer(std::move(file), std::move(memory), size);
  std::byte* const data = offer->data();
  const BufferName name = offer->name(0);
  return {.data = data, .name = name, .offer = std::move(offer)};
}

std::shared_ptr<const void> Attachment::Impl::show(ShowRecord record, const run::FileDescriptor& memory) {
  record.record = next_record_++;
  connection_.tell(record, another(memory.get()));
  const auto hide = [attachment = weak_from_this(), number = record.record](const void*) {
    if (const auto impl = attachment.lock()) impl->connection().tell(HideRecord{.record = number});
  };
  return {this, hide};
}

// ---- Sessions ----

std::unique_ptr<Attachment::Session::Impl> Attachment::Impl::open(OpenSession wish, Hooks hooks,
                                                                  const run::Deadline& deadline) {
  connection_.expect_own_process();
  const SessionSlots::Slot slot = slots_.take(connection_.last_granted());
  wish.session = slot.number;
  wish.page = slot.name;
  {
    const std::lock_guard lock(hooks_mutex_);
    hooks_.insert_or_assign(slot.number, std::make_shared<HookHolder>(std::move(hooks)));
  }
  const auto end_late = [this, number = slot.number](const DaemonMessage& late) {
    if (std::holds_alternative<Refused>(late)) return slots_.give_back(number);
    slots_.retire(number, connection_.tell(CloseSession{.session = number}));
  };
  const DaemonMessage answer = [&] {
    try {
      return connection_.ask(std::move(wish), {}, deadline, end_late);
    } catch (const Error& error) {
      forget_hooks(slot.number);
      if (error.code() != ErrorCode::timed_out) slots_.give_back(slot.number);
      throw;
    }
  }();
  if (const auto* const opened = std::get_if<SessionOpened>(&answer)) {
    return std::make_unique<Session::Impl>(shared_from_this(), slot, opened->means);
  }
  forget_hooks(slot.number);
  slots_.give_back(slot.number);
  throw refusal(answer);
}

void Attachment::Impl::ring(uint32_t session) {
  connection_.expect_own_process();
  if (!service::ring(*reinterpret_cast<DoorbellPage*>(doorbell_.data()), session)) return;
  const uint64_t one = 1;
  while (write(greeting_.event.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void Attachment::Impl::forget_hooks(uint32_t session) {
  std::shared_ptr<HookHolder> hooks;
  {
    const std::lock_guard lock(hooks_mutex_);
    const auto node = hooks_.extract(session);
    if (node.empty()) return;
    hooks = node.mapped();
  }
  hooks->end();
}

void Attachment::Impl::session_failed(const SessionFailed& failed) {
  std::shared_ptr<HookHolder> hooks;
  {
    const std::lock_guard lock(hooks_mutex_);
    const auto found = hooks_.find(failed.session);
    if (found == hooks_.end()) return;  // it was closed here at the same time
    hooks = found->second;
  }
  hooks->fail(failed.error);
}

// The other ranks see no more of it than broken connections.
void Attachment::Impl::all_failed(const Error& error) {
  std::vector<std::shared_ptr<HookHolder>> failed = all_hooks();
  std::erase_if(failed, [&](const auto& hooks) { return !hooks->fail(error); });
  for (const auto& hooks : failed) hooks->tell_peers(error);
}

void Attachment::Impl::all_succeeded() {
  for (const auto& hooks : all_hooks()) hooks->succeed();
}

std::vector<std::shared_ptr<HookHolder>> Attachment::Impl::all_hooks() {
  std::vector<std::shared_ptr<HookHolder>> all;
  const std::lock_guard lock(hooks_mutex_);
  for (const auto& [session, hooks] : hooks_) all.push_back(hooks);
  return all;
}

// ---- The interface ----

std::shared_ptr<Attachment> Attachment::to(const std::string& url, run::RegionPool& pool,
                                           const run::Deadline& deadline) {
  // In a forked process the thread is missing, and locks may be held for ever.
  const auto destroy = [](Impl* impl) {
    if (!impl->connection().is_in_child()) delete impl;
  };
  return std::shared_ptr<Attachment>(new Attachment(std::shared_ptr<Impl>(new Impl(url, pool, deadline), destroy)));
}

Attachment::Attachment(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
bool Attachment::has_gone() const { return impl_->connection().is_gone(); }
bool Attachment::is_succeeded() const { return impl_->connection().is_succeeded(); }
const Error& Attachment::loss() const { return impl_->connection().loss(); }
Attachment::~Attachment() = default;

const std::string& Attachment::url() const { return impl_->url(); }
const std::string& Attachment::host() const { return impl_->welcome().host; }
const Capability& Attachment::capability() const { return impl_->welcome().capability; }
bool Attachment::is_crowded() const { return impl_->welcome().is_crowded; }

std::optional<Attachment::Named> Attachment::name(const void* begin, size_t bytes) { return impl_->name(begin, bytes); }
Attachment::Memory Attachment::allocate(size_t bytes) { return impl_->allocate(bytes); }

std::string Attachment::hints(const run::Deadline& deadline) {
  const DaemonMessage answer = impl_->connection().ask(AskHints(), {}, deadline, [](const DaemonMessage&) {});
  if (const auto* const given = std::get_if<HintsGiven>(&answer)) return given->hints;
  throw refusal(answer);
}

std::shared_ptr<const void> Attachment::show(ShowRecord record, const run::FileDescriptor& memory) {
  return impl_->show(std::move(record), memory);
}

std::unique_ptr<Attachment::Session> Attachment::open(OpenSession wish, Hooks hooks, const run::Deadline& deadline) {
  return std::unique_ptr<Session>(new Session(impl_->open(std::move(wish), std::move(hooks), deadline)));
}

Attachment::Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Attachment::Session::~Session() = default;

SessionPage& Attachment::Session::page() const { return impl_->page(); }
const std::string& Attachment::Session::means() const { return impl_->means(); }
void Attachment::Session::ring() { impl_->ring(); }
void Attachment::Session::tell_gone(uint32_t rank) { impl_->tell_gone(rank); }
void Attachment::Session::close() { impl_->close(); }

}  // namespace banyan::service
