#include "banyan/run/execute/plans_in_force.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/record/log.h"

namespace banyan::run {

PlansInForce::PlansInForce(NetPlans::Options first, const NetOptions& options, ChannelTransport& transport)
    : rank_(first.rank),
      lanes_(transport.lane_control()),
      present_(std::make_shared<NetPlans>(first)),
      may_revise_(present_->may_revise()),
      of_messages_(present_),
      wake_(std::make_shared<LastingWake>([&transport] { transport.wake(); })),
      ahead_(options.background, [wake = wake_] { wake->wake(); }),
      changes_({.rank = first.rank,
                .ranks = first.ranks,
                .send = options.send,
                .background = options.background,
                .wake = [wake = wake_] { wake->wake(); },
                .connects =
                    [this, &transport](uint32_t peer, uint32_t lane) {
                      return lanes_ == nullptr || transport.listen(transport.channel(peer, lane));
                    }}) {
  // The ranks' texts about lost links take these paths, too: also between two that exchange no data.
  for (uint32_t peer = 0; peer < first.ranks && lanes_ != nullptr; ++peer) {
    for (const Path& path : present_->separate_paths(peer)) lanes_->announce_path(peer, path);
  }
}

// ---- Lanes of the transport ----

// Null: none that are in force.
const NetPlans* PlansInForce::with(uint32_t transport_lane) const {
  const NetPlans* const known[] = {present_.get(), changes_.next(), old_.get(), of_messages_.get()};
  for (const NetPlans* const plans : known) {
    if (plans != nullptr && plans->has(transport_lane)) return plans;
  }
  return nullptr;
}

Path PlansInForce::path(uint32_t peer, uint32_t lane) const {
  const NetPlans* const plans = with(lane);
  return plans == nullptr ? Path() : plans->path(peer, lane);
}

std::vector<uint32_t> PlansInForce::cables_of(uint32_t peer, uint32_t lane) const {
  const NetPlans* const plans = with(lane);
  return plans == nullptr ? std::vector<uint32_t>() : plans->cables(peer, lane);
}

void PlansInForce::try_lost_paths(LostPaths::TimePoint now) {
  // Paths whose pause is over are tried. One that carries again is a wish, which rank 0 decides about (4).
  if (lost_paths_.empty()) return;
  for (const LostPaths::PeerPath& lost : lost_paths_.due(now)) lanes_->try_path(lost.peer, lost.path);
  for (const LaneControl::Tried& tried : lanes_->tried()) {
    if (!tried.works) {
      lost_paths_.failed(tried.peer, tried.path, now);
    } else if (std::set<uint32_t> cables = lost_paths_.worked(tried.peer, tried.path, now); !cables.empty()) {
      changes_.propose({.mended_cables = std::move(cables)});
    }
  }
}

void PlansInForce::close_lanes_of(uint32_t generation) {
  if (lanes_ == nullptr) return;
  lanes_->drop_if(
      [&](uint32_t lane) { return lane / NetPlans::kLanes == generation && !NetPlans::is_for_messages(lane); });
}

// ---- When calls go over to other plans one by one ----

bool PlansInForce::prepare(uint64_t number, const Call& call) {
  // `go` has said which call is the last by the old plans.
  if (changes_.must_go_over(number)) go_over();
  // After `held`, this rank begins no call beyond the number that it has named.
  if (!changes_.may_begin(number) || !is_ready(call)) return false;
  return !present_->needs_counts(call) || is_ready(present_->counts_call(nullptr, nullptr));
}

bool PlansInForce::is_ready(const Call& call) {
  const std::optional<PlanSource::Question> question = present_->question(call);
  return !question || ahead_.is_ready(present_->source(), *question);
}

bool PlansInForce::advance(const PlanChanges::Calls& calls) {
  // Takes and answers the texts of all phases.
  const uint32_t settled_before = changes_.settled();
  bool moved = changes_.advance(*present_, calls);
  // After `go`. Also when no other call is made: it could begin at once then.
  if (calls.all_follow_plans && changes_.must_go_over(calls.begun + 1)) {
    go_over();
    changes_.advance(*present_, calls);
  }
  // After `drop`, the generation is settled and its plans are not followed.
  const uint32_t settled = changes_.settled();
  moved |= settled != settled_before;
  if (settled != settled_before && settled > present_->generation()) {
    BANYAN_LOG(warning) << "plans are not revised as was asked: " << changes_.refusal();
    close_lanes_of(settled);  // this rank may have connected some
  }
  settled_.store(std::max(settled, settled_.load(std::memory_order_relaxed)), std::memory_order_release);
  // After `done`.
  close_old_lanes();
  return moved;
}

void PlansInForce::go_over() {
  CHECK(old_ == nullptr) << "generation " << old_->generation() << " is not closed before that of "
                         << present_->generation() << " ends";
  std::unique_ptr<NetPlans> next = changes_.go_over();
  announce_change(next->adopted());
  old_ = follow(std::move(next));
}

void PlansInForce::close_old_lanes() {
  if (!old_ || changes_.closed_before() <= old_->generation()) return;
  close_lanes_of(old_->generation());
  old_.reset();
}

// Later calls go by these plans. Returns those that they went by so far.
std::shared_ptr<NetPlans> PlansInForce::follow(std::unique_ptr<NetPlans> plans) {
  CHECK(plans->generation() > present_->generation())
      << "generation " << plans->generation() << " after " << present_->generation();
  const std::set<uint32_t>&before = present_->adopted().lost_cables, &now = plans->adopted().lost_cables;
  std::set<uint32_t> given_up;
  std::set_difference(now.begin(), now.end(), before.begin(), before.end(), std::inserter(given_up, given_up.end()));
  lost_paths_.lose(given_up, present_->paths_across(given_up), std::chrono::steady_clock::now());
  lost_paths_.keep(now);
  return std::exchange(present_, std::move(plans));
}

// ---- When all ranks have stopped for a revision ----

const FabricUpdate& PlansInForce::decided() const {
  const FabricUpdate* const decided = changes_.decided();
  return decided == nullptr ? present_->adopted() : *decided;
}

void PlansInForce::adopt(const FabricUpdate& update, const RevisionDecision& decision) {
  // All have stopped: nobody uses any lane but those of messages. After this nothing is old (2).
  if (lanes_ != nullptr) lanes_->drop_if([](uint32_t lane) { return !NetPlans::is_for_messages(lane); });
  old_.reset();
  announce_losses(update, decision);
  follow(present_->revised(update));
  of_messages_ = present_;
}

// ---- For people ----

std::string PlansInForce::names_of(const std::set<uint32_t>& cables, const std::set<uint32_t>& but) const {
  std::string names;
  for (const uint32_t cable : cables) {
    if (!but.contains(cable)) names += " " + present_->cable_name(cable);
  }
  return names;
}

void PlansInForce::announce_change(const FabricUpdate& update) const {
  if (rank_ != 0) return;
  const FabricUpdate& before = present_->adopted();
  const std::pair<const char*, std::string> parts[] = {
      {"avoid", names_of(update.avoided_cables, before.avoided_cables)},
      {"avoid no more", names_of(before.avoided_cables, update.avoided_cables)},
      {"use links again that carry again:", names_of(before.lost_cables, update.lost_cables)}};
  std::string words;
  for (const auto& [what, names] : parts) {
    if (!names.empty()) words += std::string(words.empty() ? ": " : "; ") + what + names;
  }
  BANYAN_LOG(info) << "plans are revised: generation " << update.generation << words;
}

void PlansInForce::announce_losses(const FabricUpdate& update, const RevisionDecision& decision) const {
  if (rank_ != 0) return;
  const std::string lost = names_of(update.lost_cables, present_->adopted().lost_cables);
  const std::string tried = names_of(decision.update.lost_cables, update.lost_cables);
  const std::string needed = names_of(update.needed_cables, {});
  BANYAN_LOG(warning) << (!tried.empty() ? "there is no way without lost links, so these are tried again:" + tried
                          : lost.empty() ? "connections were lost and made again"
                                         : "went on without lost links:" + lost)
                      << (needed.empty() ? "" : "; there is no way without these that are to be avoided:" + needed);
}

}  // namespace banyan::run
