#include "banyan/service/session/session_opening.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/utf8.h"
#include "banyan/fabric/shortest_paths.h"
#include "banyan/run/execute/net_executor.h"
#include "banyan/run/transport/lane_transport.h"
#include "banyan/service/session/rate_gate.h"
#include "banyan/service/session/session_share.h"
#include "banyan/service/share/sharer.h"

namespace banyan::service {
namespace {

constexpr uint32_t kMostRanks = 65'536;
constexpr size_t kMostName = 128;  // bytes, of a communicator and of a tenant; each view has a copy

// On a monotonic clock.
RateGate::Time steady_time() { return std::chrono::steady_clock::now().time_since_epoch(); }

SessionPage* page_in(const Region& region, const BufferName& place) {
  return reinterpret_cast<SessionPage*>(region.data() + place.offset);
}

std::shared_ptr<SessionShare> make_share(const SessionOpening& opening, std::shared_ptr<RateGate> gate,
                                         std::shared_ptr<const std::vector<double>> capacities,
                                         std::shared_ptr<CarriedBytes> carried,
                                         const std::function<void(const Activity&)>& report) {
  const OpenSession& wish = opening.wish;
  SessionShare::Options options{.gate = std::move(gate),
                                .capacities = std::move(capacities),
                                .now = steady_time,
                                .tenant = opening.tenant,
                                .about = {.communicator = OpenSessions::key_of(wish).first,
                                          .sharer = sharer_of(opening.tenant, opening.grant.has_own_share),
                                          .weight = static_cast<double>(opening.grant.weight),
                                          .share_class = opening.grant.share_class,
                                          .cap = cap_of(opening.grant)},
                                .ranks = static_cast<uint32_t>(wish.members.size())};
  if (wish.rank == 0) {
    options.carried = std::move(carried);
    options.send = [report, members = members_of(wish)](const CallReport& said) {
      report({.report = said, .members = members});
    };
  }
  return std::make_shared<SessionShare>(std::move(options));
}

// Looks at the lanes of an executor, which lives as long as the session.
std::unique_ptr<LaneWatch> make_watch(const SessionOpening& opening, std::shared_ptr<WayMeter> meter,
                                      std::shared_ptr<const compose::PlannerFiles> files,
                                      const std::vector<double>& capacities, const run::NetExecutor* executor) {
  const OpenSession& wish = opening.wish;
  const auto way = [files = std::move(files), cards = opening.cards, host_of_rank = wish.host_of_rank, own = wish.rank](
                       uint32_t peer, const std::vector<uint32_t>& cables) {
    const HostCard& from = cards[host_of_rank[own]];
    const HostCard& to = cards[host_of_rank[peer]];
    fabric::PathLinks links;
    if (const std::optional<Fabric>& network = fabric_of(*files)) {
      links = fabric::links_between(*network, from.node, to.node, cables);
    }
    return WayMeter::Way{.to = to.name, .links = std::move(links.links), .is_whole = links.is_whole};
  };
  return std::make_unique<LaneWatch>(LaneWatch::Options{.meter = std::move(meter),
                                                        .tenant = opening.tenant,
                                                        .loads = [executor] { return executor->loads(); },
                                                        .way = way,
                                                        .capacities = capacities});
}

// Of messages that nobody receives.
run::MemoryKeeper keeper_of(const std::shared_ptr<TenantAccount>& account) {
  return [account](uint64_t bytes) {
    return std::make_shared<TenantAccount::Charge>(account->take(Resource::kept_bytes, bytes));
  };
}

// Of lanes, which are made when they are first used.
std::shared_ptr<void> hold_lane(const std::shared_ptr<TenantAccount>& account, uint64_t bytes, bool is_shared) {
  using Charges = std::array<TenantAccount::Charge, 2>;
  auto charges = std::make_shared<Charges>();
  charges->front() = account->take(Resource::kept_bytes, bytes);
  if (is_shared) charges->back() = account->take(Resource::shared_lanes, 1);
  return charges;
}

CommunicatorView view_of(const SessionOpening& opening) {
  const OpenSession& wish = opening.wish;
  CommunicatorView view{.id = OpenSessions::public_id(OpenSessions::key_of(wish).first),
                        .name = wish.name,
                        .tenant = opening.tenant,
                        .size = static_cast<uint32_t>(wish.members.size()),
                        .rule = opening.grant.rule,
                        .sharer = sharer_of(opening.tenant, opening.grant.has_own_share),
                        .weight = static_cast<double>(opening.grant.weight),
                        .share_class = opening.grant.share_class,
                        .cap = opening.grant.cap,
                        .ranks = {opening.client}};
  for (const HostCard& card : opening.cards) view.hosts.push_back(card.name);
  return view;
}

// It is not cut: two tenants would become one.
template <typename Refuse>
void expect_tenant(const std::string& tenant, const Refuse& refuse) {
  if (tenant.size() > kMostName) {
    refuse("a tenant's name of " + std::to_string(tenant.size()) + " bytes; give it one of " +
           std::to_string(kMostName) + " at most");
  }
  if (harmless(tenant) != tenant) refuse("a tenant's name with characters that cannot be shown: " + in_quotes(tenant));
}

}  // namespace

std::string label_of(std::string_view said) {
  size_t end = 0;
  while (end < said.size()) {
    const size_t next = end + std::max<size_t>(utf8_character(said.substr(end)), 1);
    if (next > kMostName) break;
    end = next;
  }
  return harmless(said.substr(0, end));
}

std::shared_ptr<run::PlanSource> source_for(const OpenSession& wish, const std::vector<HostCard>& cards,
                                            const compose::PlannerFiles& files) {
  run::RankLayout layout{
      .members = wish.members, .job_size = wish.job_size, .host_of_rank = wish.host_of_rank, .own = wish.rank};
  for (const HostCard& card : cards) layout.node_of_host.push_back(card.node);
  return compose::planner_from(files, layout);
}

std::vector<RanksOnHost> members_of(const OpenSession& wish) {
  std::vector<RanksOnHost> members;
  for (const std::string& host : wish.hosts) members.push_back({.host = host, .ranks = {}});
  for (uint32_t rank = 0; rank < wish.host_of_rank.size(); ++rank) {
    members[wish.host_of_rank[rank]].ranks.push_back(rank);
  }
  return members;
}

std::vector<run::ConnectTarget> targets_of(const OpenSession& wish, const std::vector<HostCard>& cards) {
  std::vector<run::ConnectTarget> targets;
  for (const uint32_t host : wish.host_of_rank) targets.push_back(target_at(cards[host]));
  return targets;
}

void expect_possible(const OpenSession& wish, const std::string& own_host) {
  const auto refuse = [](const std::string& what) { throw Error(ErrorCode::invalid_input, "a session: " + what); };
  const size_t size = wish.members.size();
  if (size < 1 || size > kMostRanks) refuse(std::to_string(size) + " ranks");
  expect_tenant(wish.tenant, refuse);
  if (wish.rank >= size) refuse("rank " + std::to_string(wish.rank) + " of " + std::to_string(size));
  if (wish.host_of_rank.size() != size) refuse("one host for each rank is needed");
  for (const uint32_t host : wish.host_of_rank) {
    if (host >= wish.hosts.size()) refuse("host " + std::to_string(host) + " does not exist");
  }
  for (const uint32_t member : wish.members) {
    if (member >= wish.job_size) refuse("process " + std::to_string(member) + " does not exist");
  }
  if (wish.hosts.size() > size)
    refuse(std::to_string(wish.hosts.size()) + " hosts for " + std::to_string(size) + " ranks");
  std::vector<std::string> hosts = wish.hosts;
  std::sort(hosts.begin(), hosts.end());
  if (const auto twice = std::adjacent_find(hosts.begin(), hosts.end()); twice != hosts.end()) {
    refuse("host " + in_quotes(*twice) + " comes twice");
  }
  if (wish.hosts[wish.host_of_rank[wish.rank]] != own_host) refuse("its rank is on another host");
  if (wish.session >= DoorbellPage::kSessions) refuse("number " + std::to_string(wish.session) + " is too large");
}

void expect_possible(const ShowRecord& show) {
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::invalid_input, "a flight record: " + what);
  };
  if (show.size < 1 || show.size > kMostRanks) refuse(std::to_string(show.size) + " ranks");
  expect_tenant(show.tenant, refuse);
  if (show.rank >= show.size) refuse("rank " + std::to_string(show.rank) + " of " + std::to_string(show.size));
}

std::unique_ptr<Session> SessionMaker::make(SessionOpening& opening, const RegionTable& regions,
                                            SessionHooks hooks) const {
  const OpenSession& wish = opening.wish;
  std::shared_ptr<const Region> region = regions.find(wish.page, sizeof(SessionPage));
  if (!region || wish.page.offset % alignof(SessionPage) != 0) {
    throw Error(ErrorCode::invalid_input, "a session: its page is not in memory that was offered");
  }
  SessionPage* const page = page_in(*region, wish.page);
  const auto size = static_cast<uint32_t>(wish.members.size());
  const auto gate = capacities ? std::make_shared<RateGate>(steady_time) : nullptr;
  const auto share = gate ? make_share(opening, gate, capacities, carried, hooks.report) : nullptr;
  run::LaneTransport::Options transport{
      .rank = wish.rank,
      .ranks = size,
      .checksums = wish.checksums,
      .sealing = sealing,
      .shares_memory = [hosts = wish.host_of_rank,
                        own = wish.host_of_rank[wish.rank]](uint32_t peer) { return hosts[peer] == own; },
      .holder = [account = opening.account](uint64_t bytes,
                                            bool is_shared) { return hold_lane(account, bytes, is_shared); }};
  const auto make_transport = [&](std::function<run::Path(uint32_t, uint32_t)> path) {
    transport.path = std::move(path);
    return std::make_unique<run::LaneTransport>(std::move(opening.connector), std::move(transport));
  };
  auto executor = std::make_unique<run::NetExecutor>(
      run::NetPlans::Options{.rank = wish.rank, .ranks = size, .source = opening.source, .revises = true},
      run::NetExecutor::Options{
          .is_oversubscribed = is_oversubscribed,
          .fail_peers = [](const Error&) {},  // clients do
          .send = std::move(hooks.send_to_all),
          .is_gone = [lanes = opening.lanes](uint32_t rank) { return lanes->liveness().is_gone(rank); },
          .gate = gate,
          .begins =
              [share](uint64_t number, const run::Call& call, const std::shared_ptr<run::PlanSource>& followed) {
                if (share) share->begin(number, call, followed);
              },
          .budget = opening.budget,
          .abandons = true,
          .confirms_late = true,
          .keeper = keeper_of(opening.account),
          .background = std::move(opening.background),
          .transport = make_transport});
  run::NetExecutor* const net = executor.get();  // which lives as long as the session
  if (share) share->watch(make_watch(opening, ways, files, *capacities, net));
  std::function<void(ShareClass)> mark;
  if (marks) mark = [net, marks = *marks](ShareClass share_class) { net->mark(marks.of(share_class)); };
  CommunicatorView about = view_of(opening);
  SessionCalls::Options calls{.rules = {.rank = wish.rank, .size = size},
                              .memory = std::move(region),
                              .page = page,
                              .regions = &regions,
                              .grants = opening.calls,
                              .account = opening.account,
                              .name = about.name};
  return std::make_unique<Session>(Session::Options{.calls = std::move(calls),
                                                    .executor = std::move(executor),
                                                    .share = share,
                                                    .about = std::move(about),
                                                    .grant = opening.grant,
                                                    .adopted = [net] { return net->adopted(); },
                                                    .mark = std::move(mark),
                                                    .failed = std::move(hooks.failed)});
}

}  // namespace banyan::service
