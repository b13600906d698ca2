#include "banyan/run/communicator/joined_processes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <functional>
#include <system_error>
#include <thread>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/base/rank_list.h"
#include "banyan/base/words.h"
#include "banyan/run/join/network.h"
#include "banyan/run/join/reach.h"
#include "banyan/run/join/rendezvous.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/back_off.h"
#include "banyan/run/system/descriptor_use.h"

namespace banyan::run {
namespace {

using Clock = AwakeClock;

constexpr std::chrono::milliseconds kGoodBye{500};
// Of the extras of a card.
constexpr const char* kRegions = "regions";
constexpr const char* kSecretMark = "secret";
constexpr const char* kEncryption = "encryption";
constexpr const char* kMemoryScope = "memory";

// For others to hear that this process cannot come.
constexpr std::chrono::milliseconds kTimeToDecline{5000};

// Staging for few ranks should fill no cache, and for many not the memory.
Segment::Options segment_options(uint32_t ranks) {
  const size_t block = ranks <= 16 ? size_t{128} << 10 : ranks <= 64 ? size_t{64} << 10 : size_t{16} << 10;
  return {.ranks = ranks, .block_bytes = block};
}

// Of processes that come together as a group: looks again and again, with growing pauses, until they are there.
class Wait {
 public:
  Wait(const JoinedProcesses& job, const std::vector<uint32_t>& ranks, const Deadline& deadline)
      : job_(job), ranks_(ranks), deadline_(deadline) {}

  // Throws naming who is missing. `missing` are ranks of the job; empty when they are there.
  void until(const std::function<std::vector<uint32_t>()>& missing) {
    for (std::chrono::microseconds pause{20}; !missing().empty();
         pause = std::min<std::chrono::microseconds>(2 * pause, kMost)) {
      expect_nobody_gone();
      if (deadline_.has_passed()) throw late(missing());
      std::this_thread::sleep_for(pause);
    }
  }

 private:
  static constexpr std::chrono::milliseconds kMost{1};

  Error late(const std::vector<uint32_t>& missing) const {
    if (missing.empty()) return Error(ErrorCode::timed_out, purpose() + " came together too late");
    const auto time = std::chrono::ceil<std::chrono::milliseconds>(deadline_.at() - begin_);
    std::string text = list_ranks(missing) + agree(missing, " have", " has") + " not come to " + purpose() +
                       " within " + format_timeout(time);
    const std::string why = job_.agent().liveness().why(missing.front());
    return Error(ErrorCode::timed_out, why.empty() ? text : text + ": " + why);
  }

  // Who has left may have done so because somebody died, of which the news may still be on its way.
  void expect_nobody_gone() {
    constexpr std::chrono::milliseconds kNewsTime{400};
    const Liveness& liveness = job_.agent().liveness();
    const auto expect_nobody_dead = [&] {
      const std::optional<uint32_t> dead = liveness.first_dead(ranks_);
      if (dead) throw gone(*dead, "is dead");
    };
    expect_nobody_dead();
    const auto left = std::ranges::find_if(ranks_, [&](uint32_t rank) { return liveness.state(rank) == Health::left; });
    if (left == ranks_.end()) return;
    for (const Clock::time_point end = Clock::now() + kNewsTime; Clock::now() < end; expect_nobody_dead()) {
      std::this_thread::sleep_for(kMost);
    }
    throw gone(*left, "has left");
  }

  Error gone(uint32_t rank, const std::string& how) const {
    return Error(ErrorCode::peer_lost, "rank " + std::to_string(rank) + " " + how + ": " +
                                           job_.agent().liveness().why(rank) + "; so " + purpose() +
                                           " cannot come together");
  }

  // Global ranks, unlike those that the members will have in the group.
  std::string purpose() const {
    std::vector<uint32_t> sorted = ranks_;
    std::ranges::sort(sorted);
    return sorted.size() == job_.size() ? "the group of all ranks" : "the group of global " + list_ranks(sorted);
  }

  const JoinedProcesses& job_;
  const std::vector<uint32_t>& ranks_;
  const Clock::time_point begin_ = Clock::now();
  const Deadline deadline_;
};

// Says to other processes of this host where the memory of a group is, until all have come, or some do not.
class Announcement {
 public:
  Announcement(RegionPool& pool, uint64_t key, int fd) : pool_(pool), key_(key) { pool_.announce(key, fd); }
  ~Announcement() { pool_.withdraw(key_); }
  Announcement(const Announcement&) = delete;
  Announcement& operator=(const Announcement&) = delete;

 private:
  RegionPool& pool_;
  const uint64_t key_;
};

// Rank 0 has a connection to each rank while they meet, and another one from then on. What others open for each rank,
// they open when it is needed.
void expect_descriptors(uint32_t rank, uint32_t size) {
  constexpr uint64_t kOwn = 24, kForEach = 8;
  const uint64_t needed = kOwn + (rank == 0 ? 2 * uint64_t{size} : 0);
  const uint64_t room = make_room_for_descriptors(kOwn + kForEach * size);
  if (room >= needed) return;
  throw Error(ErrorCode::io, "it may open " + std::to_string(room) + " descriptors more of " +
                                 std::to_string(allowed_descriptors()) + ", and takes " + std::to_string(needed) +
                                 " as rank " + std::to_string(rank) + " of " + std::to_string(size) +
                                 " (raise the hard limit: ulimit -Hn, LimitNOFILE= of systemd)");
}

// Equal for equal secrets, and tells nothing else of them.
std::string mark_of(const Secret& secret) {
  uint64_t mark = 0;
  std::memcpy(&mark, secret.sign("banyan card").data(), sizeof mark);
  return std::to_string(mark);
}

std::string name_of(Encryption encryption) {
  constexpr std::array kNames{"unset", "off", "auth", "full"};
  return kNames.at(static_cast<size_t>(encryption));
}

Seals seals_for(Encryption encryption, const Secret& secret, const std::vector<EndpointRecord>& cards) {
  const bool is_asked_for = encryption == Encryption::authenticated || encryption == Encryption::encrypted;
  if (is_asked_for && secret.is_empty()) {
    throw Error(ErrorCode::invalid_input,
                "BANYAN_ENCRYPTION=" + name_of(encryption) +
                    " wants a secret (set BANYAN_SECRET or BANYAN_SECRET_FILE to the same on all hosts)");
  }
  if (is_asked_for) {
    return {.sealing = encryption == Encryption::encrypted ? Sealing::encrypted : Sealing::authenticated,
            .is_asked_for = true};
  }
  const bool is_between_hosts = std::ranges::any_of(
      cards, [&](const EndpointRecord& card) { return card.member.host_id != cards.front().member.host_id; });
  const bool is_wanted = encryption == Encryption::automatic && is_between_hosts && !secret.is_empty();
  return {.sealing = is_wanted ? std::optional(Sealing::authenticated) : std::nullopt};
}

EndpointRecord record_of_endpoint(RegionPool& pool, const JoinedProcesses::Invitation& invitation,
                                  const Listener& listener, const Secret& secret, std::vector<std::string> addresses) {
  EndpointRecord card{.rank = invitation.rank,
                      .member = describe_self(listener.port(), std::move(addresses)),
                      .cores = own_cores(),
                      .extras = invitation.extras};
  card.extras[kRegions] = std::to_string(pool.directory_fd());
  card.extras[kSecretMark] = mark_of(secret);
  card.extras[kEncryption] = name_of(invitation.encryption);
  card.extras[kMemoryScope] = own_memory_scope();
  if (!secret.is_empty()) add_own_host(card);  // else all are on one host
  return card;
}

// All see the same cards, and throw the same. Who differs from most is odd.
void expect_one(const std::vector<EndpointRecord>& cards, const char* extra,
                const std::function<std::string(const std::string& of_odd, const std::string& of_usual,
                                                const std::string& usual)>& complaint) {
  std::map<std::string, std::vector<uint32_t>> parties;  // by what they say
  for (const EndpointRecord& card : cards) {
    const auto said = card.extras.find(extra);
    parties[said == card.extras.end() ? "" : said->second].push_back(card.rank);
  }
  if (parties.size() < 2) return;
  // The most; of as many, those with the lowest rank.
  const auto usual = std::ranges::max_element(parties, [](const auto& a, const auto& b) {
    return std::pair(a.second.size(), b.second) < std::pair(b.second.size(), a.second);
  });
  std::vector<uint32_t> odd;
  std::string of_odd;
  for (const auto& [said, ranks] : parties) {
    if (said == usual->first) continue;
    odd.insert(odd.end(), ranks.begin(), ranks.end());
    of_odd += (of_odd.empty() ? "" : " or ") + said;
  }
  std::ranges::sort(odd);
  const std::string first = odd.size() == 1 ? "" : "the first is ";
  throw Error(ErrorCode::mismatch, list_ranks(odd) + " (" + first + cards[odd.front()].described() + ")" +
                                       agree(odd, " have ", " has ") +
                                       complaint(of_odd, usual->first, list_ranks(usual->second)));
}

void expect_one_secret(const std::vector<EndpointRecord>& cards) {  // a folder lets everybody in who may write to it
  expect_one(cards, kSecretMark, [](const std::string&, const std::string&, const std::string& usual) {
    return "another secret than " + usual +
           ", or none (set BANYAN_SECRET or BANYAN_SECRET_FILE to the same on all hosts)";
  });
}

void expect_one_encryption(const std::vector<EndpointRecord>& cards) {
  expect_one(cards, kEncryption, [](const std::string& odd, const std::string& of_usual, const std::string& usual) {
    return "BANYAN_ENCRYPTION=" + odd + ", and " + usual + " " + of_usual + " (set it to the same on all ranks)";
  });
}

int directory_of(const EndpointRecord& card) {
  const auto found = card.extras.find(kRegions);
  int fd = -1;
  if (found != card.extras.end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), fd);
    if (error == std::errc() && end == text.data() + text.size() && fd >= 0) return fd;
  }
  throw Error(ErrorCode::mismatch, card.described() + " did not say where its shared memory is");
}

// Peers that choose a path call the address at its end, which may be any of this host.
Listener listen_for(const JoinedProcesses::Invitation& invitation, const std::string& address) {
  return Listener::on(invitation.has_routes && !is_loopback(address) ? any_address_like({address}) : address);
}

// Who it is that cannot come.
EndpointRecord own_name(const JoinedProcesses::Invitation& invitation) {
  return {.rank = invitation.rank, .member = describe_self(0, {}), .cores = {}, .extras = {}};
}

Error cannot_join(uint32_t rank, const Error& trouble) {
  return Error(trouble.code(), "rank " + std::to_string(rank) + " cannot join: " + trouble.what());
}

// The meeting of a process that cannot join ends with an error: the one that all were told, or why they were not.
void log_end_of_meeting(const Error& error) {
  BANYAN_LOG(info) << "the meeting of the ranks ended with this: " << error.what();
}

// What keeps this process from taking part, as far as that can be known before it meets the others.
std::optional<Error> trouble_before(const JoinedProcesses::Invitation& invitation, bool needs_loopback) {
  try {
    expect_descriptors(invitation.rank, invitation.size);
    given_addresses();
    if (!needs_loopback || !is_loopback_down()) return {};
    return Error(ErrorCode::io, "the loopback is down, by which processes of one host meet (ip link set lo up)");
  } catch (const Error& error) {
    return error;
  }
}

// By the lowest rank of each host.
void warn_of_closed_memory(const JoinedProcesses& job) {
  std::vector<uint32_t> here;
  for (uint32_t rank = 0; rank < job.size(); ++rank) {
    if (job.is_here(rank)) here.push_back(rank);
  }
  if (here.front() != job.rank() || job.share_memory(here)) return;
  const std::string& own = job.process(job.rank()).memory_scope;
  const auto other = std::ranges::find_if(here, [&](uint32_t rank) { return job.process(rank).memory_scope != own; });
  const auto space = [](const std::string& scope) { return scope.substr(0, scope.find(' ')); };
  const bool is_namespace = space(job.process(*other).memory_scope) != space(own);
  BANYAN_LOG(warning) << list_ranks(here) << " are on one host and may not open each other's memory, since ranks "
                      << job.rank() << " and " << *other
                      << (is_namespace ? " have different user namespaces"
                                       : " have different users, groups or capabilities")
                      << ": where it is closed to them, they use TCP";
}

std::shared_ptr<JoinedProcesses> from_cards(RegionPool& pool, std::vector<EndpointRecord> cards, Listener listener,
                                            const JoinedProcesses::Invitation& invitation, const std::string& place,
                                            const Secret& secret, const Deadline& deadline) {
  std::vector<Process> processes;
  World world{.rank = invitation.rank, .members = {}, .place = place};
  expect_one_secret(cards);
  expect_one_encryption(cards);
  const Seals seals = seals_for(invitation.encryption, secret, cards);
  keep_reachable(cards, invitation.rank);
  for (const EndpointRecord& card : cards) {
    const auto scope = card.extras.find(kMemoryScope);
    processes.push_back({.member = card.member,
                         .directory_fd = directory_of(card),
                         .cores = card.cores,
                         .extras = card.extras,
                         .memory_scope = scope == card.extras.end() ? "" : scope->second});
    world.members.push_back(card.member);
  }
  auto agent = std::make_unique<Agent>(std::move(listener), secret, std::move(world), Agent::Options(), deadline);
  auto joined = std::make_shared<JoinedProcesses>(pool, std::move(processes), std::move(agent), seals);
  warn_of_closed_memory(*joined);
  return joined;
}

}  // namespace

std::shared_ptr<JoinedProcesses> JoinedProcesses::join(RegionPool& pool, const Invitation& invitation,
                                                       const Secret& secret, const Deadline& deadline) {
  set_log_rank(invitation.rank);
  const Place place = Place::parse(invitation.url);
  const bool is_on_own_host = place.folder.empty() && (invitation.rank == 0 || is_loopback(place.host));
  const std::optional<Error> trouble =
      trouble_before(invitation, is_on_own_host || place.secret.value_or(secret).is_empty());
  try {
    std::optional<EndpointRecord> name;
    if (trouble) name = own_name(invitation);  // by files, before callers take all descriptors that are left
    Rendezvous rendezvous(place, secret, {.rank = invitation.rank, .job = invitation.name},
                          trouble ? deadline.within(kTimeToDecline) : deadline);
    if (trouble) rendezvous.meet(*name, invitation.size, deadline, trouble);
    Listener listener = listen_for(invitation, rendezvous.listening_address());
    const EndpointRecord own =
        record_of_endpoint(pool, invitation, listener, rendezvous.secret(), rendezvous.own_addresses());
    return from_cards(pool, rendezvous.meet(own, invitation.size, deadline), std::move(listener), invitation, place.url,
                      rendezvous.secret(), deadline);
  } catch (const Error& error) {
    if (!trouble) throw;
    log_end_of_meeting(error);
    throw cannot_join(invitation.rank, *trouble);
  }
}

std::shared_ptr<JoinedProcesses> JoinedProcesses::join(RegionPool& pool, Store& store, const Invitation& invitation,
                                                       const Secret& secret, const Deadline& deadline) {
  set_log_rank(invitation.rank);
  if (const std::optional<Error> trouble = trouble_before(invitation, secret.is_empty())) {
    try {
      meet(store, own_name(invitation), invitation.size, deadline.within(kTimeToDecline), invitation.name, trouble);
    } catch (const Error& error) {
      log_end_of_meeting(error);
    }
    throw cannot_join(invitation.rank, *trouble);
  }
  std::vector<std::string> addresses = given_addresses();
  const bool is_one_given = addresses.size() == 1;
  if (addresses.empty() && !secret.is_empty()) addresses = outward_addresses();
  if (secret.is_empty()) addresses = {"127.0.0.1"};
  Listener listener =
      listen_for(invitation, is_one_given || secret.is_empty() ? addresses.front() : any_address_like(addresses));
  const EndpointRecord own = record_of_endpoint(pool, invitation, listener, secret, std::move(addresses));
  return from_cards(pool, meet(store, own, invitation.size, deadline, invitation.name), std::move(listener), invitation,
                    store.place(), secret, deadline);
}

bool JoinedProcesses::share_memory(const std::vector<uint32_t>& ranks) const {
  return std::ranges::all_of(ranks, [&](uint32_t rank) {
    return !is_here(rank) || process(rank).memory_scope == process(ranks.front()).memory_scope;
  });
}

bool JoinedProcesses::are_cores_short() const {
  std::vector<Cores> here;
  for (uint32_t rank = 0; rank < size(); ++rank) {
    if (is_here(rank)) here.push_back(process(rank).cores);
  }
  return are_oversubscribed(here);
}

// Without memory to say good-bye, peers take this process for dead, as they do when it ends.
JoinedProcesses::~JoinedProcesses() {
  try {
    agent_->leave(Clock::now() + kGoodBye);
  } catch (...) {
    BANYAN_LOG(warning) << "left without a good-bye: " << current_error().what();
  }
}

std::string JoinedProcesses::name_of(const std::vector<uint32_t>& members, uint32_t rank) const {
  const std::string name = "rank " + std::to_string(rank);
  bool is_whole_job = members.size() == size();
  for (uint32_t i = 0; i < members.size() && is_whole_job; ++i) is_whole_job = members[i] == i;
  return is_whole_job ? name : name + " of the group (global rank " + std::to_string(members.at(rank)) + ")";
}

std::shared_ptr<const SharedMemory> JoinedProcesses::directory_of(uint32_t rank) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const SharedMemory>& directory = directories_[rank];
  if (directory == nullptr) {
    const Process& peer = process(rank);
    directory = PeerRegions::attach_directory(peer.member.pid, peer.directory_fd, "rank " + std::to_string(rank));
  }
  return directory;
}

std::unique_ptr<HostGroup> JoinedProcesses::meet_on_host(uint64_t key, const std::vector<uint32_t>& ranks,
                                                         const Deadline& deadline) const {
  Wait wait(*this, ranks, deadline);
  const auto own = static_cast<uint32_t>(std::ranges::find(ranks, rank()) - ranks.begin());
  CHECK(own < ranks.size()) << "process " << rank() << " is not in the group";
  Exchange::Options options{.rank = own, .own_regions = &pool_};
  options.peers.resize(ranks.size());
  bool can_attach = true;
  for (uint32_t i = 0; i < ranks.size(); ++i) {
    if (i == own) continue;
    options.peers[i] =
        std::make_unique<PeerRegions>(process(ranks[i]).member.pid, directory_of(ranks[i]), name_of(ranks, i));
    can_attach = can_attach && options.peers[i]->is_attachable();
  }
  const Segment::Options layout = segment_options(static_cast<uint32_t>(ranks.size()));
  Segment segment;
  std::optional<Announcement> announcement;
  if (own == 0) {
    segment = Segment::make(layout);
    announcement.emplace(pool_, key, segment.fd());
  } else {
    std::optional<int> fd;
    wait.until([&] {
      fd = options.peers[0]->find(key);
      return fd ? std::vector<uint32_t>() : std::vector<uint32_t>{ranks[0]};
    });
    segment = Segment::attach(process(ranks[0]).member.pid, *fd, layout);
  }
  segment.say_here(own, can_attach, !is_oversubscribed_);
  wait.until([&] {
    std::vector<uint32_t> missing;
    for (uint32_t i = 0; i < ranks.size() && segment.here() < ranks.size(); ++i) {
      if (!segment.is_here(i)) missing.push_back(ranks[i]);
    }
    std::ranges::sort(missing);
    return missing;
  });
  announcement.reset();
  segment.settle();
  options.may_attach = segment.can_attach() == ranks.size();
  return std::make_unique<HostGroup>(std::move(segment), std::move(options), is_oversubscribed_);
}

}  // namespace banyan::run
