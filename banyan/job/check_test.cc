#include "banyan/job/check.h"

#include "banyan/job/goal/goal.h"
#include "banyan/job/test_job.h"
#include "banyan/testing/test.h"

namespace banyan::job {
namespace {

using Kind = Finding::Kind;

constexpr CheckOptions kAllWait{.eager = Bytes(0)}, kNoneWaits{.eager = Bytes(UINT64_MAX)};

std::vector<std::string> findings_of(const Job& job, const CheckOptions& options = kAllWait) {
  std::vector<std::string> texts;
  for (const Finding& finding : check_job(job, options)) texts.push_back(finding.text);
  return texts;
}
std::vector<std::string> findings_of(const char* goal, const CheckOptions& options = kAllWait) {
  return findings_of(goal::parse_job(goal, "test"), options);
}

// Collectives written as "a8": a kind (a: allreduce, g: allgather, b: broadcast from place 0, c: from place 1, x:
// barrier) and bytes; one program a rank, on one stream in order, all on one group of all ranks.
Job collectives(const std::vector<std::vector<std::string>>& ranks) {
  Job::Builder builder("test");
  std::vector<uint32_t> all;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) all.push_back(rank);
  builder.add_group("world", all);
  for (const auto& calls : ranks) {
    builder.begin_program();
    builder.add_stream({"network", Stream::Order::program});
    for (const std::string& call : calls) {
      const char kind = call[0];
      builder.add_node({.kind = NodeKind::collective,
                        .collective = kind == 'a'   ? CollectiveKind::all_reduce
                                      : kind == 'g' ? CollectiveKind::all_gather
                                      : kind == 'x' ? CollectiveKind::barrier
                                                    : CollectiveKind::broadcast,
                        .name = builder.add_name(call),
                        .tag = kind == 'c' ? 1u : 0u,
                        .bytes = call.size() > 1 ? std::stoull(call.substr(1)) : 0});
    }
  }
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].empty()) {
      builder.add_rank(rank, {}, {});
    } else {
      builder.add_rank(rank, std::vector{0u}, {});
    }
  }
  return std::move(builder).build();
}

TEST(CheckJob, FindsNothingWhereAllIsWell) {
  EXPECT_THAT(findings_of(R"(num_ranks 2
    rank 0 { a: calc 5
             s: send 8b to 1 tag 3
             r: recv 4b from 1
             s requires a }
    rank 1 { recv 8b from 0 tag 3
             send 4b to 0 })"),
              IsEmpty());
  EXPECT_THAT(findings_of(collectives({{"a8", "g16", "b8", "x"}, {"a8", "g16", "b8", "x"}, {"a8", "g16", "b8", "x"}})),
              IsEmpty());
}

TEST(CheckJob, MatchesMessagesOfAPairAndTagInOrder) {
  EXPECT_THAT(findings_of(R"(num_ranks 2
    rank 0 { a: send 1b to 1
             b: send 2b to 1
             c: send 9b to 1 tag 5 }
    rank 1 { x: recv 9b from 0 tag 5
             y: recv 1b from 0
             z: recv 2b from 0 })"),
              IsEmpty());
  EXPECT_THAT(
      findings_of(
          "num_ranks 2 rank 0 { a: send 1b to 1\n b: send 2b to 1 } rank 1 { y: recv 2b from 0\n z: recv 1b from 0 }"),
      ElementsAre("rank 0 'a' (node 0): send of 1 B to rank 1, tag 0, but rank 1 'y' (node 0): receive of 2 B from "
                  "rank 0, tag 0",
                  "rank 0 'b' (node 1): send of 2 B to rank 1, tag 0, but rank 1 'z' (node 1): receive of 1 B from "
                  "rank 0, tag 0"));
}

TEST(CheckJob, LetsReceivesTakeFromAnybodyAndAnyTag) {
  EXPECT_THAT(findings_of(R"(num_ranks 3
    rank 0 { a: recv 8b from -1 tag 1
             b: recv 8b from -1 tag -1
             c: recv 8b from 2 tag -1
             b requires a
             c requires b }
    rank 1 { send 8b to 0 tag 1 }
    rank 2 { send 8b to 0 tag 2
             send 8b to 0 tag 1 })"),
              IsEmpty());
  EXPECT_THAT(findings_of("num_ranks 2 rank 0 { r: recv 8b from -1 tag 1 } rank 1 { s: send 8b to 0 tag 2 }"),
              ElementsAre("rank 0 'r' (node 0): receive of 8 B from anybody, tag 1 is never sent",
                          "rank 1 's' (node 0): send of 8 B to rank 0, tag 2 is never received"));
}

TEST(CheckJob, NamesMessagesThatNobodyReceivesOrSends) {
  const char* job = "num_ranks 2 rank 0 { s: send 8b to 1 tag 4 } rank 1 { r: recv 8b from 0 tag 5 }";
  EXPECT_THAT(findings_of(job), ElementsAre("rank 0 's' (node 0): send of 8 B to rank 1, tag 4 is never received",
                                            "rank 1 'r' (node 0): receive of 8 B from rank 0, tag 5 is never sent"));
  EXPECT_THAT(findings_of(job, kNoneWaits), findings_of(job));
  const auto findings = check_job(goal::parse_job(job, "test"));
  EXPECT_EQ(findings[0].kind, Kind::unmatched_send);
  EXPECT_EQ(findings[1].kind, Kind::unmatched_receive);
  EXPECT_EQ(findings[1].rank, 1u);
  // One more is received than sent, one more is sent than received.
  EXPECT_THAT(findings_of("num_ranks 2 rank 0 { send 8b to 1 } rank 1 { a: recv 8b from 0\n b: recv 8b from 0 }"),
              ElementsAre("rank 1 'b' (node 1): receive of 8 B from rank 0, tag 0 is never sent"));
}

TEST(CheckJob, ShowsTheRingOfADeadlock) {
  const char* job = R"(num_ranks 3
    rank 0 { r: recv 8b from 1
             s: send 8b to 1
             s requires r }
    rank 1 { x: calc 1
             q: recv 8b from 0
             m: calc 2
             t: send 8b to 0
             m requires q
             t requires m }
    rank 2 { calc 5 })";
  EXPECT_THAT(
      findings_of(job),
      ElementsAre("deadlock: rank 0 waits in 'r' (node 0), receive of 8 B from rank 1, tag 0, until rank 1 comes to "
                  "'t' (node 3); rank 1 waits in 'q' (node 1), receive of 8 B from rank 0, tag 0, until rank 0 comes "
                  "to 's' (node 1)"));
  EXPECT_EQ(check_job(goal::parse_job(job, "test"))[0].kind, Kind::deadlock);
}

TEST(CheckJob, TellsSendsThatWaitFromSendsThatAreBuffered) {
  const char* job = R"(num_ranks 2
    rank 0 { s: send 8b to 1
             r: recv 8b from 1
             r requires s }
    rank 1 { s: send 8b to 0
             r: recv 8b from 0
             r requires s })";
  EXPECT_THAT(findings_of(job),
              ElementsAre(HasSubstr("deadlock: rank 0 waits in 's' (node 0), send of 8 B to rank 1, tag 0, "
                                    "until rank 1 comes to 'r' (node 1); rank 1 waits in 's'")));
  EXPECT_THAT(findings_of(job, kNoneWaits), IsEmpty());
}

// As the simulator sends: a ring in which all send before they receive hangs above the eager limit alone.
TEST(CheckJob, LetsSendsUpToTheEagerLimitGoOn) {
  const auto ring = [](const std::string& bytes) {
    std::string text = "num_ranks 4\n";
    for (int rank = 0; rank < 4; ++rank) {
      text += "rank " + std::to_string(rank) + " { s: send " + bytes + "b to " + std::to_string((rank + 1) % 4) +
              "\n r: recv " + bytes + "b from " + std::to_string((rank + 3) % 4) + "\n r requires s }\n";
    }
    return goal::parse_job(text, "ring");
  };
  EXPECT_THAT(check_job(ring("65536")), IsEmpty());
  EXPECT_THAT(findings_of(ring("65537"), {}), ElementsAre(HasSubstr("deadlock")));
  EXPECT_THAT(findings_of(ring("65537"), {.eager = Bytes(1 << 20)}), IsEmpty());
}

TEST(CheckJob, ShowsTheBeginningOfALongRing) {
  std::string text = "num_ranks 100\n";
  for (int rank = 0; rank < 100; ++rank) {
    text += "rank " + std::to_string(rank) + " { r: recv 8b from " + std::to_string((rank + 99) % 100) +
            "\n s: send 8b to " + std::to_string((rank + 1) % 100) + "\n s requires r }\n";
  }
  const auto findings = findings_of(text.c_str());
  EXPECT_THAT(findings, ElementsAre(HasSubstr("; and so on over 94 more back to rank 0")));
}

TEST(CheckJob, FindsWhatStandsBehindAWait) {
  // Rank 0 waits for rank 1, which waits for a message that never comes: that is the finding, not a deadlock.
  EXPECT_THAT(findings_of(R"(num_ranks 3
    rank 0 { r: recv 8b from 1 }
    rank 1 { q: recv 8b from 2
             s: send 8b to 0
             s requires q }
    rank 2 { })"),
              ElementsAre("rank 1 'q' (node 0): receive of 8 B from rank 2, tag 0 is never sent"));
}

TEST(CheckJob, ComparesWhatMembersCall) {
  EXPECT_THAT(findings_of(collectives({{"a8", "a8"}, {"a8", "a16"}, {"a8", "g8"}})),
              ElementsAre("call 2 on group 'world' differs: rank 0 calls allreduce of 8 B, 'a8' (node 1), rank 1 calls "
                          "allreduce of 16 B, 'a16' (node 1), and 1 more differ from rank 0"));
  EXPECT_THAT(
      findings_of(collectives({{"b8"}, {"c8"}})),
      ElementsAre("call 1 on group 'world' differs: rank 0 calls broadcast of 8 B, root rank 0, 'b8' (node 0), rank 1 "
                  "calls broadcast of 8 B, root rank 1, 'c8' (node 0)"));
  EXPECT_EQ(check_job(collectives({{"b8"}, {"c8"}}))[0].kind, Kind::collective_mismatch);
}

TEST(CheckJob, NamesMembersThatNeverCall) {
  EXPECT_THAT(
      findings_of(collectives({{"a8", "x"}, {"a8"}, {"a8", "x"}})),
      ElementsAre("call 2 on group 'world' waits for ever: rank 0 calls barrier, 'x' (node 1), but rank 1 has no such "
                  "call"));
  EXPECT_THAT(findings_of(collectives({{"a8"}, {}, {}, {}, {}, {}, {}, {}, {}})),
              ElementsAre(HasSubstr("but ranks 1, 2, 3, 4, 5, 6 and 2 more have no such call")));
  EXPECT_EQ(check_job(collectives({{"a8"}, {}}))[0].kind, Kind::missing_member);
  // What differs is said even where somebody is missing as well.
  EXPECT_THAT(findings_of(collectives({{"a8"}, {"g8"}, {}})),
              ElementsAre(HasSubstr("differs"), HasSubstr("rank 2 has no")));
}

// Two groups of the same two ranks, called in another order on each: nothing differs within a group, and yet it hangs.
TEST(CheckJob, FindsTheDeadlockOfTwoGroupsInAnotherOrder) {
  Job::Builder builder("test");
  builder.add_group("tp", {0, 1});
  builder.add_group("dp", {0, 1});
  const auto call = [&](uint32_t slot) {
    builder.add_node(
        {.kind = NodeKind::collective, .name = builder.add_name(slot == 0 ? "t" : "d"), .slot = slot, .bytes = 8});
  };
  for (uint32_t rank = 0; rank < 2; ++rank) {
    builder.begin_program();
    builder.add_stream({"network", Stream::Order::program});
    call(rank);
    call(1 - rank);
  }
  for (uint32_t rank = 0; rank < 2; ++rank) builder.add_rank(rank, std::vector{0u, 1u}, {});
  EXPECT_THAT(
      findings_of(std::move(builder).build()),
      ElementsAre("deadlock: rank 0 waits in 't' (node 0), allreduce of 8 B on group 'tp', until rank 1 comes to 't' "
                  "(node 1); rank 1 waits in 'd' (node 0), allreduce of 8 B on group 'dp', until rank 0 comes to 'd' "
                  "(node 1)"));
}

// The same group in two slots, on two streams: calls of a rank are counted together.
TEST(CheckJob, CountsCallsOfAGroupOverItsSlots) {
  Job::Builder builder("test");
  builder.add_group("g", {0, 1});
  builder.begin_program();
  for (uint16_t stream = 0; stream < 2; ++stream) builder.add_stream({"s", Stream::Order::ready});
  for (uint32_t slot = 0; slot < 2; ++slot) {
    builder.add_node({.kind = NodeKind::collective,
                      .stream = static_cast<uint16_t>(slot),
                      .name = builder.add_name("c"),
                      .slot = slot,
                      .bytes = slot});
  }
  for (uint32_t rank = 0; rank < 2; ++rank) builder.add_rank(0, std::vector{0u, 0u}, {});
  EXPECT_THAT(findings_of(std::move(builder).build()), IsEmpty());
}

// A receive that holds a serial stream keeps the send behind it from starting; on a stream of Order::free it does not.
TEST(CheckJob, KnowsWhatHoldsAStream) {
  for (const auto order : {Stream::Order::ready, Stream::Order::program, Stream::Order::free}) {
    Job::Builder builder("test");
    builder.begin_program();
    builder.add_stream({"s", order});
    builder.add_node({.kind = NodeKind::receive, .name = builder.add_name("r"), .bytes = 8});
    builder.add_node({.kind = NodeKind::send, .name = builder.add_name("s"), .bytes = 8});
    for (uint32_t rank = 0; rank < 2; ++rank) builder.add_rank(0, {}, std::vector{1 - rank});
    const auto findings = findings_of(std::move(builder).build());
    if (order == Stream::Order::free) {
      EXPECT_THAT(findings, IsEmpty());
    } else {
      EXPECT_THAT(findings, ElementsAre(HasSubstr("until rank 1 comes to 's' (node 1); rank 1 waits in 'r'")));
    }
  }
}

TEST(CheckJob, ReportsInOrderOfRankAndNodeAndNoMoreThanAsked) {
  std::string text = "num_ranks 2\nrank 0 { }\nrank 1 {\n";
  for (int i = 0; i < 50; ++i) text += "recv 8b from 0 tag " + std::to_string(i) + "\n";
  const auto findings = check_job(goal::parse_job(text + "}", "test"), {.most_findings = 3});
  ASSERT_EQ(findings.size(), 3u);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_THAT(findings[i].text, HasSubstr("rank 1 node " + std::to_string(i) + ":")) << i;
}

// Messages each of which has its partner and a tag of its own, at random places, among needs at random.
Job balanced_job(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t bound) { return static_cast<uint32_t>(random() % bound); };
  const uint32_t ranks = 2 + below(3), messages = 1 + below(8);
  std::vector<std::vector<Node>> nodes(ranks);
  for (uint32_t tag = 0; tag < messages; ++tag) {
    const uint32_t from = below(ranks), to = (from + 1 + below(ranks - 1)) % ranks;
    const auto insert = [&](uint32_t rank, NodeKind kind, uint32_t peer) {
      const auto place = nodes[rank].begin() + below(nodes[rank].size() + 1);
      nodes[rank].insert(place, {.kind = kind, .slot = peer, .tag = tag, .bytes = 8});
    };
    insert(from, NodeKind::send, to);
    insert(to, NodeKind::receive, from);
  }
  Job::Builder builder("balanced");
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    builder.begin_program();
    builder.add_stream({"messages", below(3) == 0 ? Stream::Order::program : Stream::Order::free});
    for (uint32_t i = 0; i < nodes[rank].size(); ++i) {
      nodes[rank][i].name = builder.add_name("n");
      nodes[rank][i].slot -= nodes[rank][i].slot > rank;  // all other ranks are peers
      builder.add_node(nodes[rank][i]);
      if (i > 0 && below(2) == 0) builder.add_need(i, below(i));
      if (i > 0 && below(4) == 0) builder.add_follow(i, below(i));
    }
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    std::vector<uint32_t> peers;
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      if (peer != rank) peers.push_back(peer);
    }
    uint32_t used = 0;
    for (const Node& node : nodes[rank]) used = std::max(used, node.slot + 1);
    peers.resize(used);
    builder.add_rank(rank, {}, peers);
  }
  return std::move(builder).build();
}

// The definition, by looking at everything again and again: whether all nodes end. Tags tell messages apart.
bool comes_to_an_end(const Job& job, bool sends_wait) {
  std::vector<std::vector<int>> phase(job.rank_count());  // 0 waits, 1 has started, 2 has ended
  for (uint32_t rank = 0; rank < job.rank_count(); ++rank) phase[rank].assign(job.program(rank).nodes.size(), 0);
  std::map<uint32_t, std::set<NodeKind>> started;  // by tag
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t rank = 0; rank < job.rank_count(); ++rank) {
      const Program& program = job.program(rank);
      for (uint32_t i = 0; i < program.nodes.size(); ++i) {
        const Node& node = program.nodes[i];
        bool ready = i == 0 || program.streams[0].order == Stream::Order::free || phase[rank][i - 1] == 2;
        for (const uint32_t on : program.needs(i)) ready = ready && phase[rank][on] == 2;
        for (const uint32_t on : program.follows(i)) ready = ready && phase[rank][on] > 0;
        if (phase[rank][i] == 0 && ready) {
          phase[rank][i] = 1;
          started[node.tag].insert(node.kind);
          changed = true;
        }
        const bool ends = started[node.tag].size() == 2 || (node.kind == NodeKind::send && !sends_wait);
        if (phase[rank][i] == 1 && ends) {
          phase[rank][i] = 2;
          changed = true;
        }
      }
    }
  }
  for (const std::vector<int>& nodes : phase) {
    if (std::count(nodes.begin(), nodes.end(), 2) != static_cast<std::ptrdiff_t>(nodes.size())) return false;
  }
  return true;
}

TEST(CheckJob, FindsADeadlockExactlyWhenNotAllNodesEnd) {
  int hanging = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    const Job job = balanced_job(seed);
    for (const bool sends_wait : {true, false}) {
      const auto findings = check_job(job, sends_wait ? kAllWait : kNoneWaits);
      ASSERT_EQ(findings.empty(), comes_to_an_end(job, sends_wait)) << "seed " << seed << "\n" << describe(job);
      for (const Finding& finding : findings) ASSERT_EQ(finding.kind, Kind::deadlock) << "seed " << seed;
      hanging += !findings.empty();
    }
  }
  EXPECT_GT(hanging, 500);
  EXPECT_LT(hanging, 5500);
}

}  // namespace
}  // namespace banyan::job
