#include "banyan/service/client/attachment.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>
#include <variant>

#include "banyan/run/record/log.h"
#include "banyan/run/system/system_error.h"
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

}  // namespace

// The hooks of a session, until they are taken away.
class Attachment::HookHolder {
 public:
  explicit HookHolder(Attachment::Hooks hooks) : hooks_(std::move(hooks)) {}

  // Whether the peers are to be told.
  bool fail(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(has_failed_, true) || !hooks_.failed) return false;
    hooks_.failed(error);
    return hooks_.fail_peers != nullptr;
  }
  void fail_peers(const Error& error) {
    const std::lock_guard lock(mutex_);
    try {
      if (hooks_.fail_peers) hooks_.fail_peers(error);
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

class Attachment::Offered {
 public:
  Offered(std::weak_ptr<Attachment> attachment, RegionTable::Place place, run::SharedMemory memory)
      : attachment_(std::move(attachment)), place_(place), memory_(std::move(memory)) {}
  ~Offered() {
    if (const auto attachment = attachment_.lock()) attachment->connection_.send(WithdrawRegion{.place = place_});
  }
  Offered(const Offered&) = delete;
  Offered& operator=(const Offered&) = delete;

  std::byte* data() const { return memory_.data(); }
  BufferName name(uint64_t offset) const {
    return {.region = place_.index, .generation = place_.generation, .offset = offset};
  }

 private:
  const std::weak_ptr<Attachment> attachment_;
  const RegionTable::Place place_;
  const run::SharedMemory memory_;  // none for a region of the pool
};

Attachment::Attachment(const std::string& url, run::RegionPool& pool, const run::Deadline& deadline)
    : url_(url),
      pool_(pool),
      doorbell_(run::SharedMemory::with_pages(kPage)),
      greeting_(greet(url, doorbell_.fd(), deadline)),
      slots_(std::make_unique<SessionSlots>([this](size_t size) { return allocate(size); })),
      connection_(std::move(greeting_.socket), url,
                  {.session_failed = [this](const SessionFailed& failed) { session_failed(failed); },
                   .succeeded = [this] { all_succeeded(); },
                   .gone = [this](const Error& error) { all_failed(error); }}) {}

Attachment::~Attachment() = default;

std::shared_ptr<Attachment> Attachment::to(const std::string& url, run::RegionPool& pool,
                                           const run::Deadline& deadline) {
  // In a forked process the thread is missing, and locks may be held for ever.
  const auto destroy = [](Attachment* attachment) {
    if (!attachment->connection_.is_in_child()) delete attachment;
  };
  return {new Attachment(url, pool, deadline), destroy};
}

std::string Attachment::hints(const run::Deadline& deadline) {
  const DaemonMessage answer = connection_.ask(AskHints(), {}, deadline, [](const DaemonMessage&) {});
  if (const auto* const given = std::get_if<HintsGiven>(&answer)) return given->hints;
  throw refusal(answer);
}

// ---- Memory ----

std::shared_ptr<const Attachment::Offered> Attachment::offer(run::FileDescriptor file, run::SharedMemory memory,
                                                             uint64_t bytes) {
  const auto withdraw = [this](const DaemonMessage& late) {
    if (const auto* const placed = std::get_if<RegionPlaced>(&late)) {
      connection_.send(WithdrawRegion{.place = placed->place});
    }
  };
  const DaemonMessage answer =
      connection_.ask(OfferRegion{.bytes = bytes}, std::move(file), run::Deadline::after(kOfferTime), withdraw);
  const auto* const placed = std::get_if<RegionPlaced>(&answer);
  if (placed == nullptr) throw refusal(answer);
  return std::make_shared<const Offered>(weak_from_this(), placed->place, std::move(memory));
}

std::optional<Attachment::Named> Attachment::name(const void* begin, size_t bytes) {
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
std::optional<std::shared_ptr<const Attachment::Offered>> Attachment::find_offer(run::RegionId region) const {
  const std::shared_lock lock(offers_mutex_);
  const auto found = offered_.find(region);
  return found == offered_.end() ? std::nullopt : std::optional(found->second.offer);
}

// Null when it has just been freed, and when it was offered before, to another daemon or in vain (region.h).
std::shared_ptr<const Attachment::Offered> Attachment::offer_region(run::RegionId region, const std::byte* begin) {
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
void Attachment::forget_freed() {
  std::vector<std::shared_ptr<const Offered>> freed;  // withdrawn without the lock
  const std::unique_lock lock(offers_mutex_);
  std::erase_if(offered_, [&](auto& entry) {
    auto& [region, offered] = entry;
    if (pool_.find(offered.begin, 1).region == region) return false;
    if (offered.offer) freed.push_back(std::move(offered.offer));
    return true;
  });
}

Attachment::Memory Attachment::allocate(size_t bytes) {
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

std::shared_ptr<const void> Attachment::show(ShowRecord record, const run::FileDescriptor& memory) {
  record.record = next_record_++;
  connection_.send(record, another(memory.get()));
  const auto hide = [attachment = weak_from_this(), number = record.record](const void*) {
    if (const auto shared = attachment.lock()) shared->connection_.send(HideRecord{.record = number});
  };
  return {this, hide};
}

// ---- Sessions ----

std::unique_ptr<Attachment::Session> Attachment::open(OpenSession wish, Hooks hooks, const run::Deadline& deadline) {
  connection_.expect_own_process();
  const SessionSlots::Slot slot = slots_->take(connection_.last_granted());
  wish.session = slot.number;
  wish.page = slot.name;
  {
    const std::lock_guard lock(hooks_mutex_);
    hooks_.insert_or_assign(slot.number, std::make_shared<HookHolder>(std::move(hooks)));
  }
  const auto end_late = [this, number = slot.number](const DaemonMessage& late) {
    if (std::holds_alternative<Refused>(late)) return slots_->give_back(number);
    slots_->retire(number, connection_.send(CloseSession{.session = number}));
  };
  const DaemonMessage answer = [&] {
    try {
      return connection_.ask(std::move(wish), {}, deadline, end_late);
    } catch (const Error& error) {
      forget_hooks(slot.number);
      if (error.code() != ErrorCode::timed_out) slots_->give_back(slot.number);
      throw;
    }
  }();
  if (const auto* const opened = std::get_if<SessionOpened>(&answer)) {
    return std::unique_ptr<Session>(new Session(shared_from_this(), slot.number, *slot.page, opened->means));
  }
  forget_hooks(slot.number);
  slots_->give_back(slot.number);
  throw refusal(answer);
}

void Attachment::ring(uint32_t session) {
  connection_.expect_own_process();
  if (!service::ring(*reinterpret_cast<DoorbellPage*>(doorbell_.data()), session)) return;
  const uint64_t one = 1;
  while (write(greeting_.event.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void Attachment::forget_hooks(uint32_t session) {
  std::shared_ptr<HookHolder> hooks;
  {
    const std::lock_guard lock(hooks_mutex_);
    const auto node = hooks_.extract(session);
    if (node.empty()) return;
    hooks = node.mapped();
  }
  hooks->end();
}

void Attachment::session_failed(const SessionFailed& failed) {
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
void Attachment::all_failed(const Error& error) {
  std::vector<std::shared_ptr<HookHolder>> failed = all_hooks();
  std::erase_if(failed, [&](const auto& hooks) { return !hooks->fail(error); });
  for (const auto& hooks : failed) hooks->fail_peers(error);
}

void Attachment::all_succeeded() {
  for (const auto& hooks : all_hooks()) hooks->succeed();
}

std::vector<std::shared_ptr<Attachment::HookHolder>> Attachment::all_hooks() {
  std::vector<std::shared_ptr<HookHolder>> all;
  const std::lock_guard lock(hooks_mutex_);
  for (const auto& [session, hooks] : hooks_) all.push_back(hooks);
  return all;
}

Attachment::Session::Session(std::shared_ptr<Attachment> attachment, uint32_t number, SessionPage& page,
                             std::string means)
    : attachment_(std::move(attachment)), number_(number), page_(page), means_(std::move(means)) {}

Attachment::Session::~Session() {
  if (attachment_->connection_.is_in_child()) return;  // it is the parent's
  attachment_->forget_hooks(number_);
  close();
  attachment_->slots_->retire(number_, sent_after_);
}

void Attachment::Session::ring() { attachment_->ring(number_); }

void Attachment::Session::report_gone(uint32_t rank) {
  attachment_->connection_.expect_own_process();
  const std::lock_guard lock(mutex_);
  if (!is_closed_) attachment_->connection_.send(RankGone{.session = number_, .rank = rank});
}

void Attachment::Session::close() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(is_closed_, true)) return;
  sent_after_ = attachment_->connection_.send(CloseSession{.session = number_});
}

}  // namespace banyan::service
