#include "banyan/service/client/move_agreement.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>

namespace banyan::service {
namespace {

using Phase = run::PlanSwitch::Phase;

constexpr const char* kMove = "move ";

// "switch ready 3 1 it has no room": the generation to which a rank cannot go over; 0 for other texts (plan_switch.h).
uint32_t refused_by(const std::string& text) {
  std::istringstream stream(text);
  std::string prefix, kind, why;
  uint32_t generation = 0, rank = 0;
  stream >> prefix >> kind >> generation >> rank >> why;
  return kind == "ready" && !why.empty() ? generation : 0;
}

}  // namespace

std::string MoveAgreement::wish(uint32_t rank, uint32_t generation, uint32_t tries) {
  return kMove + std::to_string(rank) + " " + std::to_string(generation) + " " + std::to_string(tries);
}

void MoveAgreement::receive(const std::string& text) {
  if (text.starts_with(run::PlanSwitch::kPrefix)) {
    refused_ = std::max(refused_, refused_by(text));
    return switch_.receive(text);
  }
  if (!text.starts_with(kMove) || rank_ != 0) return;
  std::istringstream words(text.substr(std::string_view(kMove).size()));
  uint32_t rank = 0, generation = 0, tries = 0;
  if (words >> rank >> generation >> tries && rank < ranks_) receive_wish(rank, generation, tries);
}

void MoveAgreement::receive_wish(uint32_t rank, uint32_t generation, uint32_t tries) {
  wishes_[rank] = generation;
  is_asked_ = true;
  const auto& change = switch_.change();
  const bool may_be_missed = change && (change->phase == Phase::preparing || change->phase == Phase::waiting);
  if (may_be_missed && tries > 1) again_.push_back(prepare_text_);  // by a rank that was not there yet
}

void MoveAgreement::begin_if_asked(uint32_t in_force, const std::vector<run::CallShape>& shapes) {
  if (!is_asked_ || switch_.change()) return;
  is_asked_ = false;
  std::erase_if(wishes_, [&](const auto& wish) { return wish.second < in_force; });  // it has left
  const run::FabricUpdate same;
  for (const auto& [rank, generation] : wishes_) switch_.want_of(rank, {});
  if (switch_.can_begin()) switch_.begin({.adopted = same, .shapes = shapes});
}

std::vector<std::string> MoveAgreement::take_texts() {
  std::vector<std::string> texts = std::exchange(again_, {});
  std::vector<std::string> of_change = switch_.take_texts();
  for (const std::string& text : of_change) {
    if (rank_ == 0 && text.starts_with(std::string(run::PlanSwitch::kPrefix) + "prepare ")) prepare_text_ = text;
  }
  texts.insert(texts.end(), std::make_move_iterator(of_change.begin()), std::make_move_iterator(of_change.end()));
  return texts;
}

}  // namespace banyan::service
