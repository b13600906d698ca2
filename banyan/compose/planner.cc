#include "banyan/compose/planner.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/plain_text.h"
#include "banyan/base/text.h"
#include "banyan/compose/all_to_all_choice.h"
#include "banyan/compose/call_traffic.h"
#include "banyan/compose/job_network.h"
#include "banyan/fabric/cables.h"
#include "banyan/fabric/powers.h"
#include "banyan/fabric/read.h"
#include "banyan/fabric/route_book.h"
#include "banyan/plan/choose.h"
#include "banyan/plan/plan_book.h"
#include "banyan/plan/planner.h"
#include "banyan/plan/spread_routes.h"
#include "banyan/run/record/log.h"
#include "banyan/schedule/schedule_file.h"
#include "banyan/schedule/verify.h"

namespace banyan::compose {
namespace {

// Whether a plan has these ranks, and links by these numbers.
bool is_for(const Schedule& plan, std::span<const NodeId> ranks, const Fabric& fabric) {
  const auto participants = plan.collective().participants();
  const auto links = plan.fabric().links();
  return std::equal(participants.begin(), participants.end(), ranks.begin(), ranks.end()) &&
         std::equal(links.begin(), links.end(), fabric.links().begin(), fabric.links().end(),
                    [](const Link& a, const Link& b) { return a.from == b.from && a.to == b.to; });
}

class Planner : public run::PlanSource {
 public:
  struct Options {
    std::optional<Schedule> plan;
    fabric::RouteBook routes;  // through the given fabric
    uint64_t slice_bytes = 0;  // 0: as the plan needs it
    uint32_t own = 0;          // rank
    bool has_fabric = false;   // that somebody has named
  };
  Planner(JobNetwork network, Options options)
      : ground_(std::make_shared<const Ground>(std::move(network), std::move(options))),
        network_{.book = std::make_unique<plan::PlanBook>(ground_->whole), .fixed = ground_->options.plan} {}

  Answer plan(const Question& question) override {
    if (network_.fixed && follows_fixed(question)) {
      return answer("the given plan", *network_.fixed, question.total);
    }
    const plan::PlanQuestion asked{.kind = question.kind, .members = ground_->ranks, .root = question.root};
    if (is_personal(question.kind)) return all_to_all(asked, question);
    if (const Schedule* const wanted = plan_of_wanted(asked)) {
      return answer(*network_.wanted, *wanted, question.total);
    }
    const plan::Candidate& chosen = choose(network_.book->candidates(asked), question.total);
    return answer(plan::planner_named(chosen.planner), chosen.schedule, question.total);
  }

  bool plans_all_to_all() const override {
    return ground_->options.has_fabric || (network_.fixed && network_.fixed->collective().is_personal()) ||
           (network_.wanted != nullptr && network_.wanted->plans(CollectiveKind::all_to_all));
  }

  std::vector<LinkBytes> bytes_on_links(const run::Call& call) override {
    const std::optional<Question> question =
        question_of(call, static_cast<uint32_t>(ground_->ranks.size()), plans_all_to_all());
    std::vector<double> bytes(ground_->given.links().size(), 0);
    const Schedule* const schedule = question ? plan(*question).schedule : nullptr;
    if (schedule != nullptr) {
      const std::vector<double> on_planned = bytes_by_plan(call, *schedule, ground_->options.own);
      for (uint32_t link = 0; link < on_planned.size(); ++link) {
        if (const auto given = given_link(LinkId{link})) bytes[index(*given)] += on_planned[link];
      }
    } else {
      const auto works = [this](LinkId link) { return !network_.unused.contains(ground_->cables.of(link)); };
      bytes = bytes_by_shortest_ways(
          ground_->given, {.call = call, .own = ground_->options.own, .places = ground_->places, .works = works});
    }
    std::vector<LinkBytes> found;
    for (uint32_t link = 0; link < bytes.size(); ++link) {
      if (bytes[link] > 0) found.push_back({.link = link, .bytes = bytes[link]});
    }
    return found;
  }

  std::optional<Way> way(uint32_t own, const run::PlanLane& lane) const override {
    Way way;
    const bool is_turned = lane.to_peer.empty();
    for (const LinkId link : is_turned ? lane.from_peer : lane.to_peer) {
      if (const auto given = given_link(link)) way.cables.push_back(ground_->cables.of(*given));
    }
    if (is_turned) std::reverse(way.cables.begin(), way.cables.end());
    if (way.cables.empty()) return std::nullopt;  // it stays on one host
    const std::optional<fabric::RouteBook::Addresses> addresses = ground_->options.routes.find(
        {.from = ground_->places[own], .to = ground_->places[lane.peer], .cables = way.cables});
    if (!addresses) return std::nullopt;
    way.path = {.local_address = addresses->from, .peer_address = addresses->to};
    return way;
  }

  std::vector<Way> ways_between(uint32_t own, uint32_t peer) const override {
    std::vector<Way> ways;
    if (ground_->places[own] == ground_->places[peer]) return ways;  // there is no cable between them
    for (fabric::RouteBook::Path& path : ground_->options.routes.paths(ground_->places[own], ground_->places[peer])) {
      const bool is_whole = std::none_of(path.cables.begin(), path.cables.end(),
                                         [&](uint32_t cable) { return network_.unused.contains(cable); });
      if (!is_whole) continue;
      const fabric::RouteBook::Addresses addresses = *ground_->options.routes.find(path);
      ways.push_back(
          {.path = {.local_address = addresses.from, .peer_address = addresses.to}, .cables = std::move(path.cables)});
    }
    return ways;
  }

  std::string cable_name(uint32_t cable) const override {
    return name_of(ground_->cables[cable], ground_->given, false);
  }

  bool knows_ways() const override { return ground_->options.routes.size() > 0; }

  std::shared_ptr<run::PlanSource> revised(const run::FabricUpdate& update) const override {
    return std::shared_ptr<Planner>(new Planner(ground_, network_after(update)));
  }

 private:
  // What no update changes.
  struct Ground {
    Ground(JobNetwork network, Options given_options)
        : given(std::move(network.given)),
          whole(std::move(network.planned)),
          ranks(std::move(network.ranks)),
          places(std::move(network.places)),
          cables(given),
          options(std::move(given_options)) {}

    const Fabric given;                // that cables and routes are of
    const Fabric whole;                // that plans are for: the same, or with ranks behind hosts (job_network.h)
    const std::vector<NodeId> ranks;   // of the communicator, in whole
    const std::vector<NodeId> places;  // by rank: of the given fabric
    const fabric::Cables cables;
    const Options options;
  };

  // The network as it is after an update, and the plan that is to be followed there.
  struct Network {
    std::unique_ptr<plan::PlanBook> book;             // of its fabric
    std::vector<LinkId> original = {};                // in Ground::whole, by link of the book's fabric; empty: the same
    std::set<uint32_t> unused = {};                   // cables
    std::optional<Schedule> fixed = {};               // for its collective
    const plan::Planner* wanted = nullptr;            // makes the other plans; none: whichever is quickest
    std::set<plan::PlanQuestion> unplanned = {};      // for which it has none
    std::map<const Schedule*, Schedule> spread = {};  // plans of the book over all ways
    std::unique_ptr<AllToAllChoice> all_to_all = {};  // none before it is asked
    std::map<std::pair<const Schedule*, uint64_t>, Answer> of_powers = {};
  };

  Planner(std::shared_ptr<const Ground> ground, Network network)
      : ground_(std::move(ground)), network_(std::move(network)) {}

  // None where no planner is wanted, or that one has no plan for this.
  const Schedule* plan_of_wanted(const plan::PlanQuestion& question) {
    if (network_.wanted == nullptr || network_.unplanned.contains(question)) return nullptr;
    try {
      return &network_.book->plan(*network_.wanted, question);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
      BANYAN_LOG(warning) << "the planner '" << network_.wanted->name << "' has no " << to_string(question.kind)
                          << " here, so the quickest plan is taken: " << error.what();
      network_.unplanned.insert(question);
      return nullptr;
    }
  }

  // Whether the given plan is for this. An all-to-all with equal parts does not follow one for a traffic matrix.
  bool follows_fixed(const Question& question) const {
    const Collective& collective = network_.fixed->collective();
    if (collective.kind() != question.kind) return false;
    if (is_personal(question.kind)) return !question.is_even || !collective.has_traffic();
    return !collective.is_rooted() || collective.root() == collective.participants()[question.root];
  }

  // An all-to-all-v follows a plan only where it could not go straight: telling the counts takes time, too.
  Answer all_to_all(const plan::PlanQuestion& asked, const Question& question) {
    if (!network_.all_to_all) {
      network_.all_to_all = std::make_unique<AllToAllChoice>(*network_.book, ground_->ranks, knows_ways());
    }
    AllToAllChoice& choice = *network_.all_to_all;
    if (question.is_even || choice.must_forward()) {
      const bool has_wanted = network_.wanted != nullptr && network_.wanted->plans(question.kind);
      if (const Schedule* const wanted = has_wanted ? plan_of_wanted(asked) : nullptr) {
        return answer_of_power(*network_.wanted, *wanted, question.total);
      }
      if (const plan::Candidate* const chosen = choice.plan_for(question.total)) {
        return answer_of_power(plan::planner_named(chosen->planner), chosen->schedule, question.total);
      }
    }
    return {.schedule = nullptr,
            .planner = "straight",
            .seconds = choice.straight_seconds(question.total),
            .busy_seconds = choice.straight_busy_seconds(question.total)};
  }

  static const plan::Planner* planner_wanted(const std::string& name) {
    return name.empty() || name == run::FabricUpdate::kBestPlanner ? nullptr : &plan::planner_named(name);
  }

  // Where ways can be chosen, for buffers of which each part fills slices.
  const Schedule& spread(const plan::Planner& planner, const Schedule& schedule, Bytes total) {
    const uint64_t least = plan::kLeastSlice.count() * plan::kMostChannels * schedule.chunk_count();
    if (!planner.takes_first_ways || !knows_ways() || total.count() < least) return schedule;
    const auto found = network_.spread.find(&schedule);
    if (found != network_.spread.end()) return found->second;
    return network_.spread.emplace(&schedule, plan::spread_routes(schedule)).first->second;
  }

  Answer answer(const plan::Planner& planner, const Schedule& schedule, Bytes total) {
    return answer(std::string(planner.name), spread(planner, schedule, total), total);
  }

  // The same for all totals between two powers of two, found once: all-to-alls have very many edges to count.
  Answer answer_of_power(const plan::Planner& planner, const Schedule& schedule, Bytes total) {
    const uint64_t power = std::bit_floor(total.count());
    const auto [found, is_new] = network_.of_powers.try_emplace({&schedule, power});
    if (is_new) found->second = answer(planner, schedule, Bytes(power));
    Answer answer = found->second;
    if (power == 0) return answer;
    const double more = answer.busy_seconds * (static_cast<double>(total.count()) / static_cast<double>(power) - 1);
    answer.busy_seconds += more;
    answer.seconds += more;
    return answer;
  }

  Answer answer(const std::string& planner, const Schedule& schedule, Bytes total) const {
    return {.schedule = &schedule,
            .planner = planner,
            .slice_bytes = ground_->options.slice_bytes > 0 ? ground_->options.slice_bytes
                                                            : plan::choose_slice(schedule, total).count(),
            .seconds = estimate_seconds(schedule, total),
            .busy_seconds = seconds_per_byte(schedule).to_double() * static_cast<double>(total.count())};
  }

  // The link of the given fabric that a link of a plan is. Nothing: it was added to that.
  std::optional<LinkId> given_link(LinkId planned) const {
    if (!network_.original.empty()) {
      if (index(planned) >= network_.original.size()) return std::nullopt;  // of a plan for another fabric
      planned = network_.original[index(planned)];
    }
    return index(planned) < ground_->given.links().size() ? std::optional(planned) : std::nullopt;
  }

  Network network_after(const run::FabricUpdate& update) const {
    // Where links are lost, ranks that take no part are left alone: nothing goes through them, so that what is built
    // proves that the links which are left join the ranks of the communicator.
    const std::set<NodeId> own(ground_->ranks.begin(), ground_->ranks.end());
    const std::set<uint32_t> unused = update.unused_cables();
    const auto is_left_alone = [&](NodeId node) {
      return !unused.empty() && ground_->whole.is_rank(node) && !own.contains(node);
    };
    Fabric::Builder builder;
    for (uint32_t number = 0; number < ground_->whole.nodes().size(); ++number) {
      Node node = ground_->whole.nodes()[number];
      if (is_left_alone(NodeId{number})) node.kind = fabric::NodeKind::switch_;
      builder.add_node(std::move(node));
    }
    std::vector<LinkId> original;
    for (uint32_t number = 0; number < ground_->whole.links().size(); ++number) {
      Link link = ground_->whole.links()[number];
      if (is_left_alone(link.from) || is_left_alone(link.to)) continue;
      if (number < ground_->given.links().size()) {
        const uint32_t cable = ground_->cables.of(LinkId{number});
        if (unused.contains(cable)) continue;
        if (const auto changed = update.bytes_per_second.find(cable); changed != update.bytes_per_second.end()) {
          link.bandwidth = Bandwidth::bytes_per_second(changed->second);
        }
      }
      builder.add_link(link);
      original.push_back(LinkId{number});
    }
    expect_cables(update);
    return {.book = std::make_unique<plan::PlanBook>(built(std::move(builder), update)),
            .original = std::move(original),
            .unused = unused,
            .fixed = update.plan.empty() ? given_where_possible(update) : wanted_plan(update),
            .wanted = planner_wanted(update.planner)};
  }

  void expect_cables(const run::FabricUpdate& update) const {
    const size_t count = ground_->cables.all().size();
    for (const auto& [cable, bandwidth] : update.bytes_per_second) {
      if (cable >= count || bandwidth == 0) {
        throw invalid("cable " + std::to_string(cable) + " cannot have " + std::to_string(bandwidth) +
                      " bytes per second: the fabric has " + std::to_string(count) +
                      " cables, and a lost one is named as lost");
      }
    }
    for (const std::set<uint32_t>* const cables : {&update.lost_cables, &update.avoided_cables}) {
      if (cables->empty() || *cables->rbegin() < count) continue;
      throw invalid("cable " + std::to_string(*cables->rbegin()) + " does not exist: the fabric has " +
                    std::to_string(count));
    }
  }

  Fabric built(Fabric::Builder builder, const run::FabricUpdate& update) const {
    try {
      return std::move(builder).build();
    } catch (const Error& error) {
      std::string names;
      for (const uint32_t cable : update.unused_cables()) {
        names +=
            (names.empty() ? "" : ", ") + cable_name(cable) + (update.lost_cables.contains(cable) ? " (lost)" : "");
      }
      throw Error(ErrorCode::peer_lost, "without " + names + " there is no way: " + error.message());
    }
  }

  // The plan that was given at first, unless it goes by links that are lost, or whose numbers have changed.
  std::optional<Schedule> given_where_possible(const run::FabricUpdate& update) const {
    return update.unused_cables().empty() ? ground_->options.plan : std::nullopt;
  }

  Schedule wanted_plan(const run::FabricUpdate& update) const {
    const std::string where = "the plan of generation " + std::to_string(update.generation);
    Schedule plan = schedule::parse_schedule(update.plan, where).schedule;
    const schedule::Verdict verdict = verify(plan);
    if (!verdict.valid) throw Error(ErrorCode::invalid_input, "this plan is wrong: " + verdict.reason, where);
    if (!is_for(plan, ground_->ranks, ground_->whole)) {
      throw Error(ErrorCode::mismatch, "this plan is for other ranks or links than those of the communicator", where);
    }
    if (!update.unused_cables().empty()) {
      throw Error(ErrorCode::invalid_input,
                  "this plan cannot be followed while links are lost or avoided; plan without them", where);
    }
    return plan;
  }

  const std::shared_ptr<const Ground> ground_;  // shared with the sources that are revised from this one
  Network network_;
};

std::optional<Schedule> read_plan(const std::string& path) {
  if (path.empty()) return std::nullopt;
  schedule::ScheduleFile file = schedule::read_schedule(path);
  const schedule::Verdict verdict = verify(file.schedule);
  if (!verdict.valid) throw Error(ErrorCode::invalid_input, "this plan is wrong: " + verdict.reason, path);
  return std::move(file.schedule);
}

}  // namespace

struct PlannerFiles {
  PlannerOptions options;  // by which they were read
  std::optional<Schedule> plan;
  std::optional<Fabric> fabric;  // that of the plan, where no other is named; without the powers of switches, which
                                 // hosts cannot use
  std::string routes;            // which depend on the hosts where there is no fabric
};

std::shared_ptr<const PlannerFiles> read_files(const PlannerOptions& options) {
  auto files = std::make_shared<PlannerFiles>();
  files->options = options;
  files->plan = read_plan(options.plan);
  if (!options.fabric.empty()) {
    files->fabric = fabric::load_fabric({.fabric = options.fabric});
  } else if (files->plan) {
    files->fabric = files->plan->fabric();
  }
  if (files->fabric) files->fabric = fabric::without_powers(*files->fabric);
  if (!options.routes.empty()) {
    files->routes = read_plain_text(options.routes).text;
    if (files->fabric) fabric::RouteBook::parse(files->routes, *files->fabric, options.routes);
  }
  return files;
}

std::shared_ptr<run::PlanSource> planner_from(const PlannerFiles& files, const run::RankLayout& layout) {
  const PlannerOptions& options = files.options;
  const size_t ranks = layout.members.size();
  if (ranks == 1) return nullptr;  // who is alone needs no plan
  if (files.plan && files.plan->collective().participants().size() != ranks) {
    throw Error(ErrorCode::mismatch,
                "this plan is for " + std::to_string(files.plan->collective().participants().size()) +
                    " ranks, the communicator has " + std::to_string(ranks),
                options.plan);
  }
  JobNetwork network = job_network(files.fabric, layout, options.fabric);
  if (files.plan && !layout.node_of_host.empty() && !is_for(*files.plan, network.ranks, network.planned)) {
    throw Error(ErrorCode::mismatch, "this plan is for other hosts or links than those of the communicator",
                options.plan);
  }
  fabric::RouteBook routes;
  if (!options.routes.empty()) routes = fabric::RouteBook::parse(files.routes, network.given, options.routes);
  return std::make_shared<Planner>(std::move(network), Planner::Options{.plan = files.plan,
                                                                        .routes = std::move(routes),
                                                                        .slice_bytes = options.slice_bytes,
                                                                        .own = layout.own,
                                                                        .has_fabric = files.fabric.has_value()});
}

const std::optional<Fabric>& fabric_of(const PlannerFiles& files) { return files.fabric; }

void expect_rank(const PlannerFiles& files, const std::string& name) {
  if (!files.fabric || files.fabric->is_rank(files.fabric->at(name))) return;
  throw Error(ErrorCode::not_found, in_quotes(name) + " is no rank of the fabric, but a switch of it");
}

}  // namespace banyan::compose
