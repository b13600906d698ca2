#include "bench/service/raw_client.h"

#include <cstring>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/element/data_type.h"
#include "banyan/run/call/operation.h"

namespace bench {

using banyan::Error;
using banyan::ErrorCode;
using banyan::run::SharedMemory;
using std::chrono::milliseconds;
namespace run = banyan::run;
namespace service = banyan::service;

namespace {

constexpr milliseconds kAnswerTime{30'000};
constexpr size_t kPage = 4096;

run::Deadline soon() { return run::Deadline::after(kAnswerTime); }

size_t in_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// The wish that a message answers.
std::optional<uint64_t> wish_of(const service::DaemonMessage& message) {
  return std::visit(
      [](const auto& said) -> std::optional<uint64_t> {
        if constexpr (requires { said.wish; }) return said.wish;
        return std::nullopt;
      },
      message);
}

}  // namespace

bool RawClient::is_granted(uint64_t wish) {
  const run::Deadline deadline = soon();
  while (!deadline.has_passed()) {
    const std::optional<service::DaemonMessage> said = hear(deadline.next_sleep());
    if (said && wish_of(*said) == wish) return !std::holds_alternative<service::Refused>(*said);
  }
  throw Error(ErrorCode::timed_out, "the daemon does not answer");
}

RawClient::Memory RawClient::offer(size_t bytes) {
  Memory memory{.mapped = SharedMemory::with_pages(in_pages(bytes)), .name = {}};
  const uint64_t wish = next_wish();
  say(service::OfferRegion{.wish = wish, .bytes = memory.size()}, memory.mapped.fd());
  const run::Deadline deadline = soon();
  while (!deadline.has_passed()) {
    const std::optional<service::DaemonMessage> said = hear(deadline.next_sleep());
    if (!said || wish_of(*said) != wish) continue;
    if (const auto* const refused = std::get_if<service::Refused>(&*said)) throw Error(refused->error);
    const auto& placed = std::get<service::RegionPlaced>(*said);
    memory.name = {.region = placed.place.index, .generation = placed.place.generation, .offset = 0};
    memory.mapped.close_file();
    return memory;
  }
  throw Error(ErrorCode::timed_out, "the daemon does not answer");
}

// ---- Teams ----

RawTeam::RawTeam(Options options) : options_(std::move(options)) {
  for (const std::string& socket : {options_.first, options_.second}) {
    Side& side = sides_.emplace_back();
    side.client = std::make_unique<RawClient>(socket);
    side.pages = side.client->offer(options_.most_sessions * kPage);
    side.input = side.client->offer(options_.buffer);
    side.output = side.client->offer(options_.buffer);
    side.in_use.resize(options_.most_sessions);
  }
  capability_ = side(0).welcome().capability;
}

std::optional<uint32_t> RawTeam::free_session(Side& side) {
  // In turn, since the daemon may still write to the page of one that was just closed.
  for (size_t tries = 0; tries < side.in_use.size(); ++tries) {
    side.next = (side.next + 1) % static_cast<uint32_t>(side.in_use.size());
    if (!side.in_use[side.next]) return side.next;
  }
  return std::nullopt;
}

std::unique_ptr<RawTeam::Communicator> RawTeam::open(uint32_t ranks, uint32_t sides, const std::string& tenant) {
  service::OpenSession wish;
  wish.capability = capability_;
  wish.communicator = ++communicators_;
  wish.name = "attack";
  wish.tenant = tenant.empty() ? options_.tenant : tenant;
  wish.job_size = ranks;
  wish.hosts = {side(0).welcome().host, side(1).welcome().host};
  wish.timeout = wish.join_timeout = 60'000;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    wish.members.push_back(rank);
    wish.host_of_rank.push_back(rank * 2 / ranks);
  }
  auto communicator = std::make_unique<Communicator>();
  std::vector<std::pair<uint32_t, uint64_t>> asked;  // side and wish
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const uint32_t number = wish.host_of_rank[rank];
    if ((sides >> number & 1) == 0) continue;
    Side& side = sides_[number];
    const std::optional<uint32_t> session = free_session(side);
    if (!session) throw Error(ErrorCode::invalid_usage, "all sessions are in use");
    auto* const page = reinterpret_cast<SessionPage*>(side.pages.data() + *session * kPage);
    std::memset(static_cast<void*>(page), 0, kPage);
    side.in_use[*session] = true;
    wish.wish = side.client->next_wish();
    wish.session = *session;
    wish.page = side.pages.name;
    wish.page.offset = *session * kPage;
    wish.rank = rank;
    side.client->say(wish);
    asked.emplace_back(number, wish.wish);
    communicator->seats.push_back(Seat{.side = number,
                                       .session = *session,
                                       .rank = rank,
                                       .page = page,
                                       .rings = std::optional<service::ClientRings>(std::in_place, *page)});
  }
  bool is_open = true;
  for (const auto& [number, each] : asked) is_open &= side(number).is_granted(each);
  if (is_open) return communicator;
  ++refused_;
  close(*communicator);
  return nullptr;
}

void RawTeam::close(const Communicator& communicator) {
  for (const Seat& seat : communicator.seats) {
    side(seat.side).say(service::CloseSession{.session = seat.session});
    sides_[seat.side].in_use[seat.session] = false;
  }
}

Submission RawTeam::sum_of(const Seat& seat, uint64_t count) const {
  Submission sum;
  sum.kind = static_cast<uint8_t>(run::OperationKind::all_reduce);
  sum.type = static_cast<uint8_t>(banyan::element::DataType::float32);
  sum.op = static_cast<uint8_t>(banyan::element::ReduceOp::sum);
  sum.count = count;
  sum.send = input(seat.side).name;
  sum.recv = output(seat.side).name;
  return sum;
}

bool RawTeam::submit(Seat& seat, const Submission& submission) {
  if (!seat.rings->has_room()) return false;
  seat.rings->submit(submission);
  ++seat.under_way;
  side(seat.side).ring(seat.session);
  return true;
}

uint32_t RawTeam::take(Seat& seat) {
  uint32_t taken = 0;
  while (seat.rings->take()) ++taken;
  seat.under_way -= taken;
  if (seat.rings->is_awaited()) side(seat.side).ring(seat.session);
  return taken;
}

}  // namespace bench
