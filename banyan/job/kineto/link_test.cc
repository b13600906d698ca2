#include "banyan/job/kineto/link.h"

#include "banyan/testing/test.h"

namespace banyan::job::kineto {
namespace {

constexpr uint32_t kNone = HostLinks::kNone;

// Operators by name, one after the other; Kineto's with times, the host's with ids.
Trace kineto_of(const std::vector<std::string>& names) {
  Trace trace;
  trace.tracks.push_back({});
  for (size_t i = 0; i < names.size(); ++i) {
    trace.events.push_back({.name = trace.names.add(names[i]), .start = static_cast<int64_t>(10 * i), .duration = 9});
  }
  return trace;
}

HostTrace host_of(const std::vector<std::string>& names) {
  HostTrace trace;
  for (size_t i = 0; i < names.size(); ++i) {
    trace.nodes.push_back({.id = i + 1, .record_id = static_cast<int64_t>(i) + 100, .name = trace.names.add(names[i])});
  }
  return trace;
}

HostLinks link(const Trace& kineto, const HostTrace& host) { return link_host(kineto, nest_operators(kineto), host); }

std::vector<std::string> random_names(std::mt19937& random, size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back("aten::op" + std::to_string(random() % 12));
  return names;
}

TEST(KinetoLink, RecordIdsLinkWhateverTheOrder) {
  Trace kineto = kineto_of({"a", "b", "c"});
  const HostTrace host = host_of({"c", "a", "b"});
  kineto.events[0].record_id = 101;
  kineto.events[1].record_id = 102;
  kineto.events[2].record_id = 100;
  const HostLinks links = link(kineto, host);
  EXPECT_EQ(links.node_of, (std::vector<uint32_t>{1, 2, 0}));
  EXPECT_EQ(links.counts.linked_by_record_id, 3u);
}

TEST(KinetoLink, RecordIdsOfAnotherRunAreNotBelieved) {
  Trace kineto = kineto_of({"a", "b", "c", "d"});
  const HostTrace host = host_of({"a", "b", "c", "d"});
  for (size_t i = 0; i < 4; ++i) kineto.events[i].record_id = 103 - static_cast<int64_t>(i);
  const HostLinks links = link(kineto, host);
  EXPECT_EQ(links.counts.linked_by_record_id, 0u);
  EXPECT_EQ(links.counts.contradicted_links, 4u);
  EXPECT_EQ(links.counts.linked_by_name, 4u);
  EXPECT_EQ(links.node_of, (std::vector<uint32_t>{0, 1, 2, 3}));
}

TEST(KinetoLink, EvIdxLinksByTheOneDifferenceThatFits) {
  std::mt19937 random(7);
  const std::vector<std::string> names = random_names(random, 200);
  // The profiler began 30 operators earlier, and counts from zero.
  std::vector<std::string> longer = random_names(random, 30);
  longer.insert(longer.end(), names.begin(), names.end());
  Trace kineto = kineto_of(longer);
  for (size_t i = 0; i < longer.size(); ++i) kineto.events[i].index = static_cast<int64_t>(i);
  const HostLinks links = link(kineto, host_of(names));
  EXPECT_EQ(links.counts.linked_by_index, 200u);
  for (size_t i = 0; i < 200; ++i) EXPECT_EQ(links.node_of[30 + i], i);
}

TEST(KinetoLink, IndicesAtTheEndOfTheirRangeAreNoPlaces) {
  Trace kineto = kineto_of({"a", "b", "c"});
  for (size_t i = 0; i < 3; ++i) kineto.events[i].index = static_cast<int64_t>(i);
  kineto.events[2].index = INT64_MAX;
  const HostLinks links = link(kineto, host_of({"a", "b", "c"}));
  EXPECT_EQ(links.counts.linked_by_index, 2u);
  EXPECT_EQ(links.counts.linked_by_name, 1u);
}

TEST(KinetoLink, NamesAreAlignedWithTheFewestLeftOvers) {
  std::mt19937 random(20261121);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const std::vector<std::string> names = random_names(random, 20 + random() % 300);
    // Some are missing on either side.
    std::vector<std::string> on_host, on_kineto;
    size_t both = 0;
    for (const std::string& name : names) {
      const bool host_has = random() % 20 != 0, kineto_has = random() % 20 != 0;
      if (host_has) on_host.push_back(name);
      if (kineto_has) on_kineto.push_back(name);
      both += host_has && kineto_has;
    }
    const Trace kineto = kineto_of(on_kineto);
    const HostTrace host = host_of(on_host);
    const HostLinks links = link(kineto, host);
    EXPECT_GE(links.counts.linked_by_name, both);
    uint32_t previous = 0;
    bool any = false;
    for (size_t i = 0; i < on_kineto.size(); ++i) {
      const uint32_t node = links.node_of[i];
      if (node == kNone) continue;
      EXPECT_EQ(on_host[node], on_kineto[i]);
      EXPECT_TRUE(!any || node > previous);
      previous = node;
      any = true;
    }
    EXPECT_EQ(links.counts.host_alone + links.counts.linked_by_name, on_host.size());
    EXPECT_EQ(links.counts.kineto_alone + links.counts.linked_by_name, on_kineto.size());
  }
}

TEST(KinetoLink, OneStepOfTheHostIsFoundAmongManyOfTheProfiler) {
  std::mt19937 random(3);
  std::vector<std::string> all = random_names(random, 30'000);
  const std::vector<std::string> step(all.begin() + 17'000, all.begin() + 19'000);
  const HostLinks links = link(kineto_of(all), host_of(step));
  EXPECT_EQ(links.counts.linked_by_name, 2'000u);
  for (uint32_t i = 0; i < 2'000; ++i) EXPECT_EQ(links.node_of[17'000 + i], i);
}

TEST(KinetoLink, LinksThatLieWronglyWithinEachOtherAreTakenBack) {
  // Kineto has x within the first a; on the host it is within the second, and the order of names alone does not tell.
  Trace kineto = kineto_of({"a", "x", "a", "x"});
  kineto.events[0].duration = 15;
  kineto.events[2].duration = 15;
  HostTrace host = host_of({"a", "x", "a", "x"});
  host.nodes[1].parent = 0;
  host.nodes[3].parent = 0;
  const HostLinks links = link(kineto, host);
  EXPECT_EQ(links.counts.links_taken_back, 1u);
  EXPECT_EQ(links.counts.linked_by_name, 3u);
  EXPECT_EQ(links.node_of, (std::vector<uint32_t>{0, 1, 2, kNone}));
}

TEST(KinetoLink, OperatorsNestByTimeOnTheirThread) {
  Trace trace = kineto_of({"outer", "inner", "call", "after"});
  trace.tracks.push_back({});
  trace.events[0].duration = 35;  // 0-35
  trace.events[1] = {.name = 1, .start = 10, .duration = 5};
  trace.events[2] = {.kind = Event::Kind::runtime, .name = 2, .start = 10, .duration = 5};  // as long as inner
  trace.events[3].start = 36;
  EXPECT_EQ(nest_operators(trace), (std::vector<uint32_t>{kNone, 0, 1, kNone}));
  trace.events[1].track = 1;
  EXPECT_EQ(nest_operators(trace), (std::vector<uint32_t>{kNone, kNone, 0, kNone}));
}

}  // namespace
}  // namespace banyan::job::kineto
