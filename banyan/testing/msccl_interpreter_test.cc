#include "banyan/testing/msccl_interpreter.h"

#include "banyan/base/file.h"
#include "banyan/testing/test.h"

namespace banyan::testing {
namespace {

std::string fixture(const std::string& name) {
  return read_file(std::string(BANYAN_SOURCE_DIR) + "/banyan/testing/fixtures/msccl/" + name);
}

// A fixture with one thing changed.
std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("the fixture has no " + from);
  return text.replace(at, from.size(), to);
}

std::string refusal_of(const std::string& xml, const MscclCheckOptions& options = {}) {
  return testing::error_of([&] { check_msccl(xml, options); });
}

std::string block(int id, int send, int receive, const std::string& steps) {
  return "<tb id=\"" + std::to_string(id) + "\" send=\"" + std::to_string(send) + "\" recv=\"" +
         std::to_string(receive) + "\" chan=\"0\">" + steps + "</tb>";
}

struct StepText {
  int number;
  const char* type;
  const char* source;       // "i0"
  const char* destination;  // "o1"
  int depends_on_block = -1, depends_on_step = -1, has_dependents = 0;
};
std::string step(const StepText& step) {
  const std::string source = step.source, destination = step.destination;
  return "<step s=\"" + std::to_string(step.number) + "\" type=\"" + step.type + "\" srcbuf=\"" + source[0] +
         "\" srcoff=\"" + source.substr(1) + "\" dstbuf=\"" + destination[0] + "\" dstoff=\"" + destination.substr(1) +
         "\" cnt=\"1\" depid=\"" + std::to_string(step.depends_on_block) + "\" deps=\"" +
         std::to_string(step.depends_on_step) + "\" hasdep=\"" + std::to_string(step.has_dependents) + "\"/>";
}

// Two GPUs with one chunk each way and scratch to spare; only `blocks` differs.
std::string pair_of(const std::string& blocks0, const std::string& blocks1, const char* coll = "allreduce") {
  const std::string gpu = "\" i_chunks=\"2\" o_chunks=\"2\" s_chunks=\"4\">";
  return std::string("<algo name=\"t\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"2\" ngpus=\"2\" coll=\"") +
         coll + "\" inplace=\"0\" outofplace=\"1\" minBytes=\"0\" maxBytes=\"0\"><gpu id=\"0" + gpu + blocks0 +
         "</gpu><gpu id=\"1" + gpu + blocks1 + "</gpu></algo>";
}

TEST(MscclInterpreter, RunsEveryCollectiveUnderManySeeds) {
  for (const char* name : {"allgather_ring3.xml", "allgather_in_place_ring3.xml", "allreduce_ring3.xml",
                           "allreduce_pair.xml", "reduce_star3.xml", "reduce_scatter_pair.xml"}) {
    EXPECT_EQ(refusal_of(fixture(name), {.seeds = 100}), "no error") << name;
  }
  EXPECT_EQ(refusal_of(fixture("broadcast_chain3.xml"), {.root = 1, .seeds = 100}), "no error");
}

TEST(MscclInterpreter, KnowsThatARingNeedsTwoSlots) {
  // Everybody has sent; rcs holds on to what it receives until it can send as well.
  EXPECT_THAT(refusal_of(fixture("allreduce_ring3.xml"), {.fewest_slots = 1}),
              HasSubstr("gpu 0 block 0 step 1 waits for room to send to gpu 1 on channel 0"));
  EXPECT_EQ(refusal_of(fixture("allreduce_pair.xml"), {.fewest_slots = 1}), "no error");
}

TEST(MscclInterpreter, ReturnsTheArraysOfTheCollective) {
  const MscclProgram program = parse_msccl(fixture("allreduce_pair.xml"));
  const MscclRun run = run_msccl(program, {{1, 2, 3, 4}, {10, 20, 30, 40}}, {.chunk_elements = 2, .loops = 2});
  EXPECT_EQ(run.outputs, (RankArrays{{11, 22, 33, 44}, {11, 22, 33, 44}}));
  EXPECT_EQ(run.steps, 8u);  // four in each loop
  EXPECT_EQ(run.messages, 4u);
}

TEST(MscclInterpreter, FusesReductionsOntoOneDestination) {
  const MscclProgram program = parse_msccl(fixture("reduce_star3.xml"));
  const auto& steps = program.gpus[0].blocks[2].steps;
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[1].sources.size(), 2u);
  EXPECT_EQ(steps[1].number, 3u);
  EXPECT_EQ(steps[1].waits_for.size(), 2u);
}

TEST(MscclInterpreter, FindsWrongData) {
  // The second hop stores the shard in the wrong place, so another stays unwritten.
  const std::string ring = fixture("allgather_ring3.xml");
  EXPECT_THAT(refusal_of(with(ring, "type=\"r\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"1\"",
                              "type=\"r\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"2\"")),
              HasSubstr("gpu 0 o[1] is never written"));
  // Wrong order: the shards of two steps change places.
  const std::string swapped = with(with(ring, "type=\"rcs\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"2\"",
                                        "type=\"rcs\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"x\""),
                                   "type=\"r\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"1\"",
                                   "type=\"r\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"2\"");
  EXPECT_THAT(refusal_of(with(swapped, "\"x\"", "\"1\"")), HasSubstr("gpu 0 output chunk 1 element 0 is"));
  // A sum that leaves one term out: stored, not reduced.
  EXPECT_THAT(refusal_of(with(fixture("reduce_scatter_pair.xml"), "\"rrc\"", "\"r\"")),
              HasSubstr("gpu 0 output chunk 0 element 0 is"));
}

TEST(MscclInterpreter, NamesTheMissingAttribute) {
  const std::string pair = fixture("allreduce_pair.xml");
  for (const char* attribute : {"nchunksperloop", "outofplace", "minBytes", "i_chunks", "send", "chan", "srcbuf",
                                "dstoff", "cnt", "depid", "hasdep"}) {
    const std::string renamed = with(pair, std::string(" ") + attribute + "=", std::string(" x") + attribute + "=");
    EXPECT_THAT(refusal_of(renamed), HasSubstr(std::string("lacks ") + attribute));
  }
  EXPECT_THAT(refusal_of(with(pair, " cnt=", " xcnt=")), HasSubstr("gpu 0 block 0 step 0: <step> lacks cnt"));
}

TEST(MscclInterpreter, HoldsToTheLimitsOfRccl) {
  std::string steps;
  for (int i = 0; i < 65; ++i) steps += step({i, "cpy", "i0", "s0"});
  EXPECT_THAT(refusal_of(pair_of(block(0, -1, -1, steps), "")),
              HasSubstr("gpu 0 block 0 step 64: too many steps: a block has at most 64"));
  std::string blocks;
  for (int i = 0; i < 65; ++i) blocks += block(i, -1, -1, "");
  EXPECT_THAT(refusal_of(pair_of(blocks, "")), HasSubstr("gpu 0: too many thread blocks: 65, at most 64"));
  const std::string pair = fixture("allreduce_pair.xml");
  EXPECT_THAT(refusal_of(with(pair, "cnt=\"2\"", "cnt=\"72\"")),
              HasSubstr("gpu 0 block 0 step 0: cnt=\"72\" is not a number from 1 to 71"));
  EXPECT_THAT(refusal_of(with(pair, "nchannels=\"1\"", "nchannels=\"33\"")), HasSubstr("from 1 to 32"));
  EXPECT_THAT(refusal_of(with(pair, "chan=\"0\"", "chan=\"1\"")), HasSubstr("gpu 0 block 0: chan=\"1\""));
  const MscclLimits narrow{.blocks_per_channel = 0, .elements_per_gpu = 4095};
  EXPECT_THROW(parse_msccl(pair, narrow), Error);
  steps.clear();
  for (int i = 0; i < 63; ++i) steps += step({i, "cpy", "i0", "s0"});
  blocks.clear();
  for (int i = 0; i < 64; ++i) blocks += block(i, -1, -1, steps);
  EXPECT_THAT(refusal_of(pair_of(blocks, "")),
              HasSubstr("keeps 4095 elements a GPU (algo, gpus, its tbs and steps), not 4099"));
}

TEST(MscclInterpreter, ReadsNoMoreXmlThanRccl) {
  const std::string pair = fixture("allreduce_pair.xml");
  EXPECT_THAT(refusal_of("<?xml version=\"1.0\"?>\n" + pair), HasSubstr("line 1: RCCL's reader does not know <?xml?>"));
  EXPECT_THAT(refusal_of(with(pair, "\n  <gpu", "\n\t<gpu")), HasSubstr("line 3: RCCL's reader wants '<'"));
  EXPECT_THAT(refusal_of(with(pair, " i_chunks", "  i_chunks")), HasSubstr("line 3: RCCL's reader wants a name"));
  EXPECT_THAT(refusal_of(with(pair, "id=\"0\"", "id='0'")), HasSubstr("wants '\"' here"));
  EXPECT_THAT(refusal_of(pair.substr(0, pair.size() / 2)), ::testing::Not("no error"));
  EXPECT_THAT(refusal_of("<gpu id=\"0\"/>"), HasSubstr("there is no <algo>"));
  EXPECT_THAT(refusal_of(with(pair, "allreduce pair", std::string(256, 'x'))), HasSubstr("more than 255 characters"));
}

TEST(MscclInterpreter, RefusesPeersThatDoNotFit) {
  const std::string pair = fixture("allreduce_pair.xml");
  EXPECT_THAT(refusal_of(with(pair, "<tb id=\"1\" send=\"1\"", "<tb id=\"1\" send=\"0\"")),
              HasSubstr("gpu 0 block 1: a GPU cannot send to itself"));
  EXPECT_THAT(refusal_of(with(pair, "<tb id=\"1\" send=\"1\"", "<tb id=\"1\" send=\"2\"")),
              HasSubstr("gpu 0 block 1: send=\"2\" is not a number from -1 to 1"));
  EXPECT_THAT(refusal_of(with(pair, "<tb id=\"1\" send=\"1\"", "<tb id=\"1\" send=\"-1\"")),
              HasSubstr("gpu 0 block 1 step 0: sends, but the block has no send peer"));
  const std::string send = step({0, "s", "i0", "o0"});
  EXPECT_THAT(refusal_of(pair_of(block(0, 1, -1, send), block(0, -1, 0, ""))),
              HasSubstr("gpu 0 block 0 step 0: unmatched send: gpu 1 receives 0 times from gpu 0 on channel 0"));
  EXPECT_THAT(refusal_of(pair_of(block(0, 1, -1, ""), block(0, -1, 0, step({0, "r", "i0", "o0"})))),
              HasSubstr("gpu 1 block 0 step 0: unmatched receive"));
  EXPECT_THAT(refusal_of(pair_of(block(0, 1, -1, send) + block(1, 1, -1, send), "")),
              HasSubstr("gpu 0 block 1: and block 0 both send to gpu 1 on channel 0"));
  EXPECT_THAT(refusal_of(with(pair, "dstbuf=\"o\" dstoff=\"0\" cnt=\"2\"", "dstbuf=\"o\" dstoff=\"0\" cnt=\"1\"")),
              HasSubstr("gpu 1 block 0 step 0: sends 2 chunks that gpu 0 block 0 step 0 receives as 1"));
}

TEST(MscclInterpreter, RefusesDependenciesThatDoNotHold) {
  const std::string pair = fixture("allreduce_pair.xml");
  const std::string waits = "depid=\"0\" deps=\"0\"";
  EXPECT_THAT(refusal_of(with(pair, waits, "depid=\"0\" deps=\"1\"")),
              HasSubstr("gpu 0 block 1 step 0: waits for block 0 step 1, which does not exist"));
  EXPECT_THAT(refusal_of(with(pair, waits, "depid=\"2\" deps=\"0\"")),
              HasSubstr("block 2 step 0, which does not exist"));
  EXPECT_THAT(refusal_of(with(pair, waits, "depid=\"1\" deps=\"0\"")), HasSubstr("its own block"));
  EXPECT_THAT(refusal_of(with(pair, waits, "depid=\"0\" deps=\"-1\"")), HasSubstr("both be -1 or neither"));
  EXPECT_THAT(refusal_of(with(pair, "hasdep=\"1\"", "hasdep=\"0\"")),
              HasSubstr("block 0 step 0, which has hasdep=\"0\""));
  EXPECT_THAT(refusal_of(with(pair, "hasdep=\"1\"", "hasdep=\"2\"")), HasSubstr("hasdep=\"2\""));
  const std::string star = fixture("reduce_star3.xml");
  EXPECT_THAT(refusal_of(with(star, "depid=\"1\" deps=\"0\"", "depid=\"-1\" deps=\"-1\"")),
              HasSubstr("gpu 0 block 2 step 2: a step after a nop needs a dependency of its own"));
  EXPECT_THAT(refusal_of(with(star, "depid=\"0\" deps=\"0\"", "depid=\"-1\" deps=\"-1\"")),
              HasSubstr("gpu 0 block 2 step 1: a nop without a dependency"));
}

TEST(MscclInterpreter, ReportsWhoWaitsForWhomInADeadlock) {
  const std::string receive_first = step({0, "r", "i0", "o0"}) + step({1, "s", "i0", "o0"});
  EXPECT_THAT(refusal_of(pair_of(block(0, 1, 1, receive_first), block(0, 0, 0, receive_first))),
              AllOf(HasSubstr("deadlock: gpu 0 block 0 step 0 waits for a message from gpu 1 on channel 0"),
                    HasSubstr("gpu 1 block 0 step 0 waits for a message from gpu 0")));
  std::string send_first;
  for (int i = 0; i < 5; ++i) send_first += step({i, "s", "i0", "o0"});
  for (int i = 5; i < 10; ++i) send_first += step({i, "r", "i0", "s0"});
  EXPECT_THAT(refusal_of(pair_of(block(0, 1, 1, send_first), block(0, 0, 0, send_first))),
              HasSubstr("gpu 0 block 0 step 2 waits for room to send to gpu 1 on channel 0"));
  const std::string crossed =
      block(0, -1, -1, step({0, "cpy", "i0", "o0", 1, 0, 1})) + block(1, -1, -1, step({0, "cpy", "i1", "o1", 0, 0, 1}));
  EXPECT_THAT(refusal_of(pair_of(crossed, "")), HasSubstr("gpu 0 block 0 step 0 waits for block 1 step 0"));
}

TEST(MscclInterpreter, FindsRacesWhateverTheOrder) {
  // Without the dependency, block 1 may send the sum before block 0 has made it.
  const std::string racy = with(fixture("allreduce_pair.xml"), "depid=\"0\" deps=\"0\"", "depid=\"-1\" deps=\"-1\"");
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const MscclProgram program = parse_msccl(racy);
    EXPECT_THAT(testing::error_of([&] {
                  run_msccl(program, {{1, 2}, {3, 4}}, {.seed = seed, .chunk_elements = 1, .in_place = true});
                }),
                AllOf(HasSubstr("race on gpu 0 o[0]"), HasSubstr("gpu 0 block 1 step 0"),
                      HasSubstr("gpu 0 block 0 step 0"), HasSubstr("nothing orders them")))
        << "seed " << seed;
  }
  const std::string two_writers =
      block(0, -1, -1, step({0, "cpy", "i0", "o0"})) + block(1, -1, -1, step({0, "cpy", "i0", "o0"}));
  EXPECT_THAT(refusal_of(pair_of(two_writers, "")), HasSubstr("race on gpu 0 o[0]"));
}

TEST(MscclInterpreter, ProtectsWhatBelongsToTheCaller) {
  EXPECT_THAT(refusal_of(pair_of(block(0, -1, -1, step({0, "cpy", "i0", "i1"})), "")),
              HasSubstr("gpu 0 block 0 step 0 writes gpu 0 i[1], the caller's input"));
  EXPECT_THAT(refusal_of(pair_of(block(0, -1, -1, step({0, "cpy", "s0", "o1"})), "")),
              HasSubstr("gpu 0 block 0 step 0 reads gpu 0 s[0], which nothing has written"));
  EXPECT_THAT(refusal_of(pair_of("", block(0, -1, -1, step({0, "cpy", "i0", "o0"})), "reduce")),
              HasSubstr("only the root of a reduce has an output"));
  EXPECT_THAT(refusal_of(pair_of("", block(0, -1, -1, step({0, "cpy", "i0", "o0"})), "broadcast")),
              HasSubstr("reads gpu 1 i[0], which nothing has written"));
  EXPECT_THAT(refusal_of(pair_of(block(0, -1, -1, step({0, "cpy", "i2", "o0"})), "")),
              HasSubstr("gpu 0 block 0 step 0: offset 2 with cnt 1 is outside the input buffer of 2 chunks"));
}

TEST(MscclInterpreter, TellsApartInAndOutOfPlace) {
  const MscclProgram program = parse_msccl(fixture("allgather_in_place_ring3.xml"));
  EXPECT_THROW(run_msccl(program, {{1}, {2}, {3}}, {.chunk_elements = 1}), Error);
  const MscclRun run = run_msccl(program, {{1}, {2}, {3}}, {.chunk_elements = 1, .in_place = true});
  EXPECT_EQ(run.outputs, (RankArrays{{1, 2, 3}, {1, 2, 3}, {1, 2, 3}}));
  EXPECT_THAT(refusal_of(with(fixture("allgather_in_place_ring3.xml"), "outofplace=\"0\"", "outofplace=\"1\"")),
              HasSubstr("out of place, seed 0"));
}

TEST(MscclInterpreter, LeavesOtherCollectivesAlone) {
  const std::string text = pair_of("", "", "gather");
  EXPECT_EQ(testing::thrown_by([&] { parse_msccl(text); }).code(), ErrorCode::unsupported);
  EXPECT_THAT(refusal_of(pair_of("", "", "allgatherv")), HasSubstr("no collective of MSCCL"));
}

}  // namespace
}  // namespace banyan::testing
