#include <array>
#include <string>

#include "banyan/base/check.h"
#include "banyan/service/share/rules.h"
#include "banyan/testing/fuzz.h"

namespace banyan::service {
namespace {

constexpr std::array<std::string_view, 2> kPlans = {"forest", "ring"};

void look_at(const Grant& grant, const Rules& rules) {
  CHECK(grant.weight >= 1 && grant.weight <= 1000) << grant.weight;
  CHECK(grant.share_class <= ShareClass::low);
  CHECK(!grant.denial || (!grant.denial->empty() && grant.weight == 1)) << *grant.denial;
  CHECK(!grant.cap || *grant.cap > 0);
  CHECK(grant.plan.empty() || grant.plan == kPlans[0] || grant.plan == kPlans[1]) << grant.plan;
  CHECK(!grant.rule.empty() && (rules.size() > 0 || grant == Grant())) << grant.rule;
}

// Whatever table is read grants something sound to everybody; one that does not look at calls grants the same to all.
const testing::Fuzzer kFuzzer("rules", "banyan/service/share/corpus/rules", [](std::string_view input) {
  const Rules rules = Rules::parse(input, "fuzz", kPlans);
  CHECK(rules.version() >= 1);
  const std::string some(input.substr(0, 40));
  for (const Subject& subject : {Subject{}, Subject{.tenant = "t1",
                                            .user = "alice",
                                            .cgroup = "/slurm/7",
                                            .communicator = some,
                                            .user_id = 1000,
                                            .hosts = {"node-1", some}}}) {
    const Grant opened = rules.grant(subject);
    look_at(opened, rules);
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{1} << 20, UINT64_MAX}) {
      const Grant called = rules.grant(subject, {.kind = run::OperationKind::all_reduce, .bytes = bytes});
      look_at(called, rules);
      CHECK(rules.looks_at_calls() || called == opened) << called.rule << ' ' << opened.rule;
    }
  }
});

}  // namespace
}  // namespace banyan::service
