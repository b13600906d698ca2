#include "banyan/run/execute/revision_talk.h"

#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/record/log.h"

namespace banyan::run {

bool RevisionTalk::hear(const std::string& text) {
  if (!text.starts_with(Revisions::kPrefix)) return false;
  revisions_.heard(text);
  is_called_.store(true, std::memory_order_release);
  return true;
}

void RevisionTalk::propose(const FabricUpdate& wish) {
  {
    const std::lock_guard lock(mutex_);
    wish_.add(wish);
  }
  has_wish_.store(true, std::memory_order_release);
}

std::optional<uint32_t> RevisionTalk::called_to() {
  if (!is_called_.load(std::memory_order_acquire)) return std::nullopt;
  is_called_.store(false, std::memory_order_relaxed);
  return revisions_.called_to(generation_);
}

std::optional<FabricUpdate> RevisionTalk::untold_wish() {
  if (!has_wish_.load(std::memory_order_acquire)) return std::nullopt;
  has_wish_.store(false, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  if (wish_.is_empty()) return std::nullopt;
  return wish_;
}

// Unless it has changed since.
void RevisionTalk::forget_wish(const FabricUpdate& wish) {
  const std::lock_guard lock(mutex_);
  if (wish_ == wish) wish_ = {};
}

void RevisionTalk::report(RevisionReport report) {
  generation_ = report.generation;
  report.rank = rank_;
  {
    const std::lock_guard lock(mutex_);
    report.wish = reported_wish_ = wish_;
  }
  tell_(report.encode());
}

namespace {

// The same on all ranks, since they plan for the same network.
FabricUpdate with_a_way(const RevisionDecision& decision,
                        const std::function<void(const FabricUpdate&)>& expect_possible) {
  const auto joins_all = [&](const FabricUpdate& update) {
    try {
      expect_possible(update);
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::peer_lost) throw;
      BANYAN_LOG(debug) << error.message();
      return false;
    }
  };
  FabricUpdate update = decision.certain;
  if (update.lost_cables.empty() || joins_all(update)) return update;
  // Cables that nothing can be done without, such as the only one of a rank: if it is one of these, there is nothing to
  // be done but wait, and if not, it was blamed because nothing else crosses it.
  const auto spare = [&](std::set<uint32_t> cables) {
    std::erase_if(cables, [&](uint32_t cable) {
      FabricUpdate one = update;
      one.lost_cables = {cable};
      return !joins_all(one);
    });
    return cables;
  };
  update.lost_cables = spare(decision.certain.lost_cables);
  if (joins_all(update)) return update;
  update.lost_cables = spare(decision.losses);
  if (joins_all(update)) return update;
  update.lost_cables.clear();
  return update;
}

}  // namespace

std::optional<RevisionTalk::Agreement> RevisionTalk::agreement(
    const std::function<void(const FabricUpdate&)>& expect_possible) {
  const std::optional<RevisionDecision> decision = revisions_.decide(generation_);
  if (!decision) return std::nullopt;
  if (!decision->has_wishes) {
    forget_wish(reported_wish_);  // it is fulfilled
    return Agreement{.update = with_a_way(*decision, expect_possible), .decision = *decision};
  }
  vote(decision->wished, expect_possible);
  const std::optional<std::string> refusal = revisions_.refusal(generation_);
  if (!refusal) return std::nullopt;
  if (!refusal->empty()) BANYAN_LOG(warning) << "plans are not revised as was asked: " << *refusal;
  forget_wish(reported_wish_);
  return Agreement{.update = refusal->empty() ? decision->wished : with_a_way(*decision, expect_possible),
                   .decision = *decision};
}

void RevisionTalk::vote(const FabricUpdate& wished, const std::function<void(const FabricUpdate&)>& expect_possible) {
  if (voted_on_ == generation_) return;
  RevisionVote vote{.generation = generation_, .rank = rank_};
  try {
    expect_possible(wished);
  } catch (const Error& error) {
    vote.refusal = error.message();
  }
  voted_on_ = generation_;
  tell_(vote.encode());
}

void RevisionTalk::finish() {
  revisions_.forget_before(generation_);
  is_called_.store(true, std::memory_order_release);
  has_wish_.store(true, std::memory_order_release);  // there may be another wish by now, or the same still
}

bool RevisionTalk::has_news() {
  const uint64_t texts = revisions_.count();
  return std::exchange(texts_seen_, texts) != texts;
}

}  // namespace banyan::run
