#include "banyan/run/communicator/regrouping.h"

#include <algorithm>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/hash.h"
#include "banyan/run/join/wire.h"

namespace banyan::run {

Communicator::Agreed Regrouping::agree(int32_t flag, std::chrono::milliseconds at_most) {
  SurvivorQuestion question = question_without({});
  question.epoch = mix(communicator_, 0xa64ee00000 + ++agreements_);
  question.card = WireWriter().number(static_cast<uint32_t>(flag)).take();
  question.patience = at_most / 2;
  question.deadline = Deadline::after(at_most).at();
  const Survivors survivors = [&] {
    try {
      return job_.agent().agree(question);
    } catch (const Error& error) {
      // Besides a value there may be news of lost ranks; here there is no value.
      if (error.code() != ErrorCode::peer_lost) throw;
      const bool is_fenced = job_.agent().liveness().is_fenced();
      throw Error(is_fenced ? ErrorCode::aborted : ErrorCode::timed_out, error.message());
    }
  }();
  Communicator::Agreed agreed{.flag = -1};
  for (const std::string& card : survivors.cards) {
    agreed.flag &= static_cast<int32_t>(WireReader(card).number<uint32_t>());
  }
  const std::lock_guard lock(mutex_);
  std::set<uint32_t> missing;
  std::string text;
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    if (std::ranges::binary_search(survivors.ranks, members_[rank])) continue;
    CHECK(members_[rank] != job_.rank()) << "rank " << rank << " has a value of an agreement without it";
    missing.insert(rank);
    if (acknowledged_.contains(rank)) continue;
    const bool is_dead = peers_.health(rank) == Health::dead;
    const std::string why = peers_.why(rank);
    text += (text.empty() ? "" : "; ") + peers_.name_of(rank) +
            (is_dead ? " is dead" : " took no part in the agreement") + (why.empty() ? "" : ": " + why);
  }
  acknowledged_ = std::move(missing);
  if (!text.empty()) agreed.lost = Error(ErrorCode::peer_lost, text);
  return agreed;
}

SurvivorQuestion Regrouping::question_without(std::span<const uint32_t> excluded) const {
  SurvivorQuestion question{.candidates = members_};
  std::ranges::sort(question.candidates);
  for (const uint32_t rank : excluded) {
    if (rank >= members_.size()) {
      throw Error(ErrorCode::invalid_input,
                  "rank " + as_given(rank) + " cannot be excluded: there are only " + std::to_string(members_.size()));
    }
    question.excluded.push_back(members_[rank]);
  }
  return question;
}

Regrouping::Group Regrouping::next_group(SurvivorQuestion question) {
  question.epoch = mix(communicator_, 0x5312 + ++groups_);
  const Survivors survivors = job_.agent().agree(question);
  Group group{.id = question.epoch};
  for (const uint32_t member : members_) {
    if (!std::ranges::binary_search(survivors.ranks, member)) continue;
    group.members.push_back(member);
    group.id = mix(group.id, member);
  }
  CHECK(std::ranges::binary_search(survivors.ranks, job_.rank()))
      << "process " << job_.rank() << " is in no group of its own agreement";
  return group;
}

bool Regrouping::has_lost_one_of_host(const Group& group) const {
  const Liveness& liveness = job_.agent().liveness();
  const std::vector<uint32_t>& members = group.members;
  return std::ranges::all_of(members, [&](uint32_t member) { return job_.is_here(member); }) &&
         std::ranges::any_of(members, [&](uint32_t member) { return liveness.is_gone(member); });
}

}  // namespace banyan::run
