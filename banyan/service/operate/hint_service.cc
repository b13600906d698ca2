#include "banyan/service/operate/hint_service.h"

#include <utility>

#include "banyan/fabric/links.h"
#include "banyan/fabric/shortest_paths.h"
#include "banyan/service/view/hints.h"

namespace banyan::service {

namespace {

void refuse(const HintService::Reply& reply, const std::string& why) {
  reply({.hints = {}, .refusal = Error(ErrorCode::unsupported, why)});
}

const std::string kTooMany = "too many ask for hints; ask again later";

}  // namespace

void HintService::ask(const Whose& whose, const std::function<Asker()>& asker, Reply reply) {
  if (parts_.capacities.empty()) {
    return refuse(reply, "the service does not know the network; its operator has to give --fabric");
  }
  const auto now = parts_.reactor.now();
  std::erase_if(questions_,
                [&](const auto& each) { return each.second.replies.empty() && each.second.asked + kFresh <= now; });
  if (!questions_.contains(whose) && unanswered_of(whose.account) >= kMostUnanswered) return refuse(reply, kTooMany);
  const auto [found, is_new] = questions_.try_emplace(whose, Question{.asked = now, .replies = {}, .answer = {}});
  Question& question = found->second;
  if (question.answer) return reply(*question.answer);
  if (question.replies.size() >= kMostWaiting) return refuse(reply, kTooMany);
  question.replies.push_back(std::move(reply));
  if (!is_new) return;
  make_answer(asker(), lifetime_.guard([this, whose](const Answer& made) {
    Question& answered = questions_.at(whose);
    answered.answer = made;
    for (const Reply& each : std::exchange(answered.replies, {})) each(made);
  }));
}

size_t HintService::unanswered_of(uint32_t account) const {
  size_t count = 0;
  for (auto each = questions_.lower_bound({.account = account}); each != questions_.end(); ++each) {
    if (each->first.account != account) break;
    count += each->second.answer ? 0 : 1;
  }
  return count;
}

void HintService::make_answer(Asker asker, Reply reply) {
  if (asker.hosts.size() > kMostHosts) {
    return refuse(reply, "hints are for at most " + std::to_string(kMostHosts) + " hosts; this tenant has " +
                             std::to_string(asker.hosts.size()));
  }
  if (waiting_.size() >= kMostWaiting) return refuse(reply, kTooMany);
  if (views_ && parts_.reactor.now() < seen_ + kFresh) return answer({std::move(asker), std::move(reply)}, views_);
  waiting_.push_back({std::move(asker), std::move(reply)});
  if (waiting_.size() > 1) return;
  parts_.look(lifetime_.guard([this](std::vector<HostView> views, const auto&) {
    views_ = std::make_shared<const std::vector<HostView>>(std::move(views));
    seen_ = parts_.reactor.now();
    for (const Waiting& each : std::exchange(waiting_, {})) answer(each, views_);
  }));
}

void HintService::answer(const Waiting& waiting, const Views& views) {
  waiting.asker.background([files = parts_.files, capacities = parts_.capacities, asker = waiting.asker, views,
                            reply = waiting.reply, mailbox = parts_.reactor.mailbox()] {
    mailbox->post([reply, answer = answer_of(*files, capacities, asker, *views)] { reply(answer); });
  });
}

HintService::Answer HintService::answer_of(const compose::PlannerFiles& files, const std::vector<double>& capacities,
                                           const Asker& asker, const std::vector<HostView>& views) {
  HintQuestion question{.tenants = asker.tenants};
  std::vector<std::string> nodes;
  std::vector<WayView> ways;
  for (const HostView& host : views) {
    ways.insert(ways.end(), host.ways.begin(), host.ways.end());
    if (!asker.hosts.contains(host.name)) continue;
    question.hosts.push_back(host.name);
    nodes.push_back(host.node);
  }
  const auto named = [&](const std::vector<uint32_t>& places) {
    std::vector<std::string> names;
    for (const uint32_t place : places) names.push_back(question.hosts[place]);
    return names;
  };
  const Fabric& network = fabric_of(files).value();
  const std::vector<std::string> names = fabric::link_names(network);
  for (const fabric::LinkAmong& each : fabric::links_among(network, nodes)) {
    question.links.push_back({.name = names.at(each.link),
                              .capacity = capacities.at(each.link),
                              .from = named(each.from),
                              .to = named(each.to)});
  }
  Answer answer{.hints = hints_json(question, ways), .refusal = {}};
  if (answer.hints.size() > kMostBytes) {
    answer = {.hints = {},
              .refusal = Error(ErrorCode::unsupported, "hints for " + std::to_string(question.hosts.size()) +
                                                           " hosts of this network are longer than the service says")};
  }
  return answer;
}

}  // namespace banyan::service
