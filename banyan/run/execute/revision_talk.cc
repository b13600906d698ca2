#include "banyan/run/execute/revision_talk.h"

#include <set>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/record/log.h"

namespace banyan::run {
namespace {

using Cables = std::set<uint32_t>;
using ExpectPossible = std::function<void(const FabricUpdate&)>;

// Which of what was lost, and of what is avoided, is used where there is no way without. The same on all ranks, since
// they plan for the same network.
class UpdateSearch {
 public:
  UpdateSearch(const RevisionDecision& decision, const ExpectPossible& expect_possible)
      : decision_(decision), expect_possible_(expect_possible) {}

  FabricUpdate update() {
    const FabricUpdate& update = decision_.update;
    // In this order: without all that is lost; with those lost cables that nothing can be done without; with those that
    // were lost earlier; with all. Each time with as few avoided cables as will do.
    if (update.unused_cables().empty()) return update;
    if (const auto found = with_lost(update.lost_cables)) return *found;
    if (const auto found = with_lost(spare(update.lost_cables))) return *found;
    if (const auto found = with_lost(spare(decision_.losses))) return *found;
    return with_lost({}).value_or(with({}, update.avoided_cables));
  }

 private:
  FabricUpdate with(const Cables& lost, const Cables& needed) const {
    FabricUpdate update = decision_.update;
    update.lost_cables = lost;
    update.needed_cables = needed;
    return update;
  }

  bool joins_all(const FabricUpdate& update) const {
    try {
      expect_possible_(update);
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::peer_lost) throw;
      BANYAN_LOG(debug) << error.message();
      return false;
    }
  }

  // Without these, and without as many of the avoided ones as possible.
  std::optional<FabricUpdate> with_lost(const Cables& lost) const {
    const Cables& avoided = decision_.update.avoided_cables;
    if (FabricUpdate all = with(lost, {}); joins_all(all)) return all;
    if (avoided.empty() || !joins_all(with(lost, avoided))) return std::nullopt;
    // Avoided cables are given up one by one, as long as the others still join all.
    Cables needed = avoided;
    for (const uint32_t cable : avoided) {
      needed.erase(cable);
      if (!joins_all(with(lost, needed))) needed.insert(cable);
    }
    return with(lost, needed);
  }

  // But for cables that nothing can be done without, such as the only one of a rank: if it is one of these, there is
  // nothing to be done but wait, and if not, it was blamed because nothing else crosses it.
  Cables spare(Cables cables) const {
    std::erase_if(cables, [&](uint32_t cable) { return !joins_all(with({cable}, decision_.update.avoided_cables)); });
    return cables;
  }

  const RevisionDecision& decision_;
  const ExpectPossible& expect_possible_;
};

}  // namespace

bool RevisionTalk::receive(const std::string& text) {
  if (!text.starts_with(Revisions::kPrefix)) return false;
  revisions_.receive(text);
  is_called_.store(true, std::memory_order_release);
  return true;
}

std::optional<uint32_t> RevisionTalk::called_to() {
  if (!is_called_.load(std::memory_order_acquire)) return std::nullopt;
  is_called_.store(false, std::memory_order_relaxed);
  return revisions_.called_to(generation_);
}

void RevisionTalk::report(RevisionReport report) {
  generation_ = report.generation;
  report.rank = rank_;
  send_(report.encode());
}

std::optional<RevisionTalk::Agreement> RevisionTalk::agreement(const ExpectPossible& expect_possible) {
  std::optional<RevisionDecision> decision = revisions_.decide(generation_);
  if (!decision) return std::nullopt;
  FabricUpdate update = UpdateSearch(*decision, expect_possible).update();
  return Agreement{.update = std::move(update), .decision = *std::move(decision)};
}

void RevisionTalk::finish() {
  revisions_.forget_before(generation_);
  is_called_.store(true, std::memory_order_release);
}

bool RevisionTalk::has_news() {
  const uint64_t texts = revisions_.count();
  return std::exchange(texts_seen_, texts) != texts;
}

}  // namespace banyan::run
