#include "banyan/testing/mscclpp_interpreter.h"

#include <nlohmann/json.hpp>

#include "banyan/base/file.h"
#include "banyan/testing/test.h"

namespace banyan::testing {
namespace {

using Json = nlohmann::ordered_json;

Json fixture(const std::string& name) {
  return Json::parse(read_file(std::string(BANYAN_SOURCE_DIR) + "/banyan/testing/fixtures/mscclpp/" + name));
}

std::string refusal_of(const Json& plan, const MscclppCheckOptions& options = {}) {
  return testing::error_of([&] { check_mscclpp(plan.dump(), options); });
}

Json& ops(Json& plan, size_t gpu, size_t block = 0) { return plan["gpus"][gpu]["threadblocks"][block]["ops"]; }

// A plan without the n-th operation of a block.
Json without(Json plan, size_t gpu, size_t block, size_t op) {
  ops(plan, gpu, block).erase(op);
  return plan;
}

TEST(MscclppInterpreter, RunsEveryCollectiveUnderManySeeds) {
  for (const char* name : {"allgather_pair.json", "allgather_ring3.json", "allreduce_pair.json",
                           "reduce_scatter_pair.json", "broadcast_pair.json", "reduce_chain3.json"}) {
    EXPECT_EQ(refusal_of(fixture(name), {.seeds = 100}), "no error") << name;
  }
}

TEST(MscclppInterpreter, ReturnsTheArraysOfTheCollective) {
  const MscclppPlan plan = parse_mscclpp(fixture("allreduce_pair.json").dump());
  const MscclppRun run = run_mscclpp(plan, {{1, 2, 3, 4}, {10, 20, 30, 40}}, {.chunk_elements = 2});
  EXPECT_EQ(run.outputs, (RankArrays{{11, 22, 33, 44}, {11, 22, 33, 44}}));
  EXPECT_EQ(run.operations, 14u);
}

TEST(MscclppInterpreter, PairsTheEndsOfChannelsInOrder) {
  const MscclppPlan plan = parse_mscclpp(fixture("allgather_ring3.json").dump());
  ASSERT_EQ(plan.channels.size(), 6u);
  for (uint32_t id = 0; id < 6; ++id) {
    const MscclppChannel& channel = plan.channels[id];
    EXPECT_EQ(plan.channels[channel.partner].partner, id);
    EXPECT_EQ(plan.channels[channel.partner].peer, channel.rank);
  }
}

TEST(MscclppInterpreter, FindsWrongData) {
  Json misplaced = fixture("allgather_pair.json");
  ops(misplaced, 0)[3]["dst_buff"][0]["index"] = 1;
  EXPECT_THAT(refusal_of(misplaced), HasSubstr("gpu 1 o[1]"));
  Json lost = fixture("reduce_scatter_pair.json");
  ops(lost, 0)[5]["src_buff"][1] = ops(lost, 0)[5]["src_buff"][0];
  EXPECT_THAT(refusal_of(lost), HasSubstr("gpu 0 output chunk 0 element 0 is"));
  EXPECT_THAT(refusal_of(without(fixture("broadcast_pair.json"), 0, 1, 3)), HasSubstr("gpu 1 o[0]"));
}

TEST(MscclppInterpreter, KnowsThatThreadsMeetAtNopsOnly) {
  // The signal of one thread says nothing of what the other threads have put.
  EXPECT_THAT(refusal_of(without(fixture("allgather_pair.json"), 0, 0, 4)),
              AllOf(HasSubstr("race on gpu 1 o[0]"), HasSubstr("gpu 0 block 0 op 3 (put) writes it"),
                    HasSubstr("nop and barrier only")));
  // Nor do the others know of the signal that one thread has waited for.
  EXPECT_THAT(refusal_of(without(fixture("reduce_chain3.json"), 0, 0, 2)),
              AllOf(HasSubstr("race on gpu 0 s[0]"), HasSubstr("gpu 0 block 0 op 2 (re) reads it"),
                    HasSubstr("gpu 1 block 0 op 4 (res) writes it")));
  // Two data operations of one block are done by its threads in any order.
  EXPECT_THAT(refusal_of(without(fixture("reduce_scatter_pair.json"), 0, 0, 4)),
              AllOf(HasSubstr("race on gpu 0 s[0]"), HasSubstr("op 4 (re)"), HasSubstr("op 3 (get)")));
}

TEST(MscclppInterpreter, WantsPutsOrderedBySignals) {
  // Without the semaphore, block 1 puts what block 0 has perhaps not copied yet.
  Json early = without(without(fixture("broadcast_pair.json"), 0, 1, 1), 0, 0, 2);
  EXPECT_THAT(refusal_of(early), AllOf(HasSubstr("gpu 0 o[0]"), HasSubstr("gpu 0 block 1 op 2 (put)")));
  // A relaxed signal orders no data.
  Json relaxed = fixture("allgather_pair.json");
  ops(relaxed, 0)[5]["name"] = "rlxsignal";
  EXPECT_THAT(refusal_of(relaxed), HasSubstr("gpu 0 block 0 op 3 (put) writes it"));
  // The barrier is what tells block 1 of the signal that block 0 has waited for.
  EXPECT_THAT(refusal_of(without(without(fixture("broadcast_pair.json"), 1, 0, 2), 1, 1, 0)), HasSubstr("gpu 1 o[0]"));
}

TEST(MscclppInterpreter, WantsPortPutsFlushedBeforeTheSourceIsFree) {
  Json plan = fixture("allgather_ring3.json");
  EXPECT_THAT(refusal_of(without(plan, 0, 0, 8)), AllOf(HasSubstr("gpu 0 o[0]"), HasSubstr("the caller on gpu 0"),
                                                        HasSubstr("gpu 0 block 0 op 4 (pws) reads it")));
  // pwsf flushes itself.
  Json flushed = without(without(plan, 0, 0, 8), 0, 0, 7);
  ops(flushed, 0)[6]["name"] = "pwsf";
  EXPECT_EQ(refusal_of(flushed), "no error");
  // A signal overtakes no put of its channel, but one of another channel may.
  Json overwritten = without(plan, 0, 0, 8);
  Json copy = ops(overwritten, 0)[0];
  copy["dst_buff"][0]["index"] = 2;
  ops(overwritten, 0).insert(ops(overwritten, 0).begin() + 8, copy);
  EXPECT_THAT(refusal_of(overwritten), AllOf(HasSubstr("race on gpu 0 o[2]"), HasSubstr("op 8 (copy) writes it")));
}

TEST(MscclppInterpreter, LeavesMemoryToTheCallerOutsideKernels) {
  // Without the hand-shake at the start, gpu 0 may write while gpu 1 still does something else.
  Json early = without(without(fixture("allgather_pair.json"), 0, 0, 1), 1, 0, 0);
  EXPECT_THAT(refusal_of(early), AllOf(HasSubstr("race on gpu 1 o[0]"), HasSubstr("the caller on gpu 1")));
  // Without the one at the end, gpu 0 may return while gpu 1 still reads from it.
  Json late = without(without(fixture("reduce_scatter_pair.json"), 1, 0, 7), 0, 0, 8);
  EXPECT_THAT(refusal_of(late),
              AllOf(HasSubstr("the caller on gpu 0"), HasSubstr("gpu 1 block 0 op 3 (get) reads it")));
}

TEST(MscclppInterpreter, WantsNothingLeftOver) {
  EXPECT_THAT(refusal_of(without(fixture("allgather_ring3.json"), 0, 0, 2)), ::testing::Not("no error"));
  Json signal = fixture("broadcast_pair.json");
  ops(signal, 1).push_back(ops(signal, 1)[0]);
  EXPECT_THAT(refusal_of(signal),
              HasSubstr("gpu 0 does not wait for the last 1 signals on memory channel 0 from gpu 1"));
  Json semaphore = fixture("broadcast_pair.json");
  ops(semaphore, 0, 0).push_back(ops(semaphore, 0, 0)[2]);
  EXPECT_THAT(refusal_of(semaphore), HasSubstr("gpu 0 semaphore 0 ends at 1, but begins at 0"));
}

TEST(MscclppInterpreter, ReportsWhoWaitsForWhomInADeadlock) {
  Json waits = fixture("allgather_pair.json");
  for (size_t gpu = 0; gpu < 2; ++gpu) std::swap(ops(waits, gpu)[0], ops(waits, gpu)[1]);
  EXPECT_THAT(
      refusal_of(waits),
      AllOf(HasSubstr("deadlock: gpu 0 block 0 op 0 (rlxwait) waits for a signal on memory channel 0 from gpu 1"),
            HasSubstr("gpu 1 block 0 op 0 (rlxwait) waits for")));
  EXPECT_THAT(refusal_of(without(without(fixture("broadcast_pair.json"), 1, 1, 1), 1, 1, 0)),
              HasSubstr("gpu 1 block 0 op 2 (barrier) waits for barrier 3, where 1 of 2 blocks are"));
  EXPECT_THAT(refusal_of(without(fixture("broadcast_pair.json"), 0, 0, 2)),
              HasSubstr("gpu 0 block 1 op 1 (sem_acquire) waits for semaphore 0"));
}

TEST(MscclppInterpreter, NamesTheMissingKey) {
  for (const char* key : {"name", "collective", "protocol", "inplace", "gpus"}) {
    Json plan = fixture("allgather_pair.json");
    plan.erase(key);
    EXPECT_THAT(refusal_of(plan), HasSubstr(std::string("plan: lacks ") + key));
  }
  for (const char* key :
       {"id", "input_chunks", "output_chunks", "scratch_chunks", "threadblocks", "channels", "remote_buffers"}) {
    Json plan = fixture("allgather_pair.json");
    plan["gpus"][1].erase(key);
    EXPECT_THAT(refusal_of(plan), HasSubstr(std::string("gpu 1: lacks ") + key));
  }
  Json plan = fixture("allgather_pair.json");
  ops(plan, 0)[3]["src_buff"][0].erase("index");
  EXPECT_THAT(refusal_of(plan), HasSubstr("gpu 0 block 0 op 3 (put): lacks index"));
  EXPECT_THROW(parse_mscclpp("{\"name\": "), Error);
  EXPECT_THROW(parse_mscclpp("[]"), Error);
}

TEST(MscclppInterpreter, HoldsToTheLimitsOfTheExecutor) {
  Json long_block = fixture("allgather_pair.json");
  while (ops(long_block, 0).size() < 65) ops(long_block, 0).push_back({{"name", "nop"}});
  EXPECT_THAT(refusal_of(long_block), HasSubstr("gpu 0 block 0 op 64: too many operations: a block has at most 64"));
  Json channels = fixture("allgather_pair.json");
  for (int i = 0; i < 16; ++i) channels["gpus"][0]["threadblocks"][0]["channels"][0]["channel_ids"].push_back(0);
  EXPECT_THAT(refusal_of(channels), HasSubstr("gpu 0 block 0: more than 16 channels"));
  Json wide = fixture("allgather_pair.json");
  for (int i = 0; i < 8; ++i) ops(wide, 0)[0]["channel_ids"].push_back(0);
  EXPECT_THAT(refusal_of(wide), HasSubstr("gpu 0 block 0 op 0 (rlxsignal): 9 channels, at most 8"));
  Json buffers = fixture("allgather_pair.json");
  for (int i = 0; i < 10; ++i) ops(buffers, 0)[3]["src_buff"].push_back(ops(buffers, 0)[3]["src_buff"][0]);
  EXPECT_THAT(refusal_of(buffers), HasSubstr("11 buffers in src_buff, at most 10"));
  Json barrier = fixture("broadcast_pair.json");
  ops(barrier, 1, 0)[2]["barrier_id"] = 16;
  EXPECT_THAT(refusal_of(barrier), HasSubstr("gpu 1 block 0 op 2 (barrier): barrier_id is 16, not a number below 16"));
  Json semaphores = fixture("broadcast_pair.json");
  for (int i = 0; i < 16; ++i) semaphores["gpus"][0]["semaphores"].push_back({{"init_value", 0}});
  EXPECT_THAT(refusal_of(semaphores), HasSubstr("gpu 0: 17 semaphores, at most 16"));
}

TEST(MscclppInterpreter, RefusesWhatTheKernelWouldGetWrong) {
  Json self = fixture("allgather_pair.json");
  self["gpus"][0]["channels"][0]["connected_to"][0] = 0;
  EXPECT_THAT(refusal_of(self), HasSubstr("gpu 0: connected_to is the GPU itself"));
  Json swapped = fixture("reduce_scatter_pair.json");
  ops(swapped, 0)[3]["dst_buff"][0]["index"] = 1;
  EXPECT_THAT(refusal_of(swapped), HasSubstr("gpu 0 block 0 op 3 (get): the kernel swaps the two offsets of get"));
  Json signalling = fixture("allgather_pair.json");
  ops(signalling, 0)[3]["name"] = "pws";
  EXPECT_THAT(refusal_of(signalling), HasSubstr("over a memory channel it would not signal"));
  Json sizes = fixture("broadcast_pair.json");
  ops(sizes, 0, 1)[3]["dst_buff"][0]["size"] = 1;
  EXPECT_THAT(refusal_of(sizes), HasSubstr("gpu 0 block 1 op 3 (put): sizes differ"));
  Json outside = fixture("broadcast_pair.json");
  ops(outside, 0, 1)[3]["dst_buff"][0]["index"] = 1;
  EXPECT_THAT(refusal_of(outside), HasSubstr("dst_buff index 1 size 2 is outside the buffer of 2 chunks on gpu 1"));
  Json astray = fixture("allgather_ring3.json");
  ops(astray, 0)[4]["channel_ids"][0] = 1;
  EXPECT_THAT(refusal_of(astray), HasSubstr("gpu 0 block 0 op 4 (pws): puts into gpu 1 over a channel to gpu 2"));
  Json over = fixture("broadcast_pair.json");
  ops(over, 1, 1)[1]["dst_buff"][0] = {{"type", "o"}, {"index", 1}, {"size", 1}};
  ops(over, 1, 1)[1]["src_buff"][0] = {{"type", "o"}, {"index", 0}, {"size", 2}};
  EXPECT_THAT(refusal_of(over), HasSubstr("sizes differ"));
  Json both = fixture("broadcast_pair.json");
  Json& blocks = both["gpus"][1]["threadblocks"];
  blocks[1]["channels"] = blocks[0]["channels"];
  blocks[1]["ops"].push_back(blocks[0]["ops"][1]);
  EXPECT_THAT(refusal_of(both), HasSubstr("gpu 1 block 1: and block 0 both wait on memory channel 0"));
  Json alone = fixture("allgather_pair.json");
  alone["gpus"][1]["channels"][0]["connected_to"] = Json::array();
  alone["gpus"][1]["remote_buffers"] = Json::array();
  alone["gpus"][1]["threadblocks"] = Json::array();
  EXPECT_THAT(refusal_of(alone), HasSubstr("gpu 0 block 0 op 0 (rlxsignal): the channel to gpu 1 has no other end"));
  Json input = fixture("reduce_scatter_pair.json");
  ops(input, 0)[5]["dst_buff"][0]["type"] = "i";
  EXPECT_THAT(refusal_of(input), HasSubstr("the caller's input, which is not output as well"));
}

TEST(MscclppInterpreter, SaysWhatItDoesNotInterpret) {
  for (const char* name : {"ppkt", "rppkt", "cpkt", "gstore", "pipeline"}) {
    Json plan = fixture("allgather_pair.json");
    ops(plan, 0)[3]["name"] = name;
    EXPECT_THAT(refusal_of(plan), HasSubstr("is not interpreted"));
  }
  Json unknown = fixture("allgather_pair.json");
  ops(unknown, 0)[3]["name"] = "glre";
  EXPECT_THAT(refusal_of(unknown), HasSubstr("gpu 0 block 0 op 3 (glre): no operation has this name"));
  Json channel = fixture("allgather_pair.json");
  channel["gpus"][0]["channels"][0]["channel_type"] = "optical";
  EXPECT_THAT(refusal_of(channel), HasSubstr("a channel type is memory, port or switch"));
  Json packets = fixture("allgather_pair.json");
  packets["protocol"] = "LL";
  EXPECT_THAT(refusal_of(packets), HasSubstr("packets"));
}

}  // namespace
}  // namespace banyan::testing
