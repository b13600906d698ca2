#include "banyan/job/chakra/chakra.h"

#include <unistd.h>
#include <zlib.h>

#include "banyan/base/file.h"
#include "banyan/job/chakra/binary.h"
#include "banyan/job/check.h"
#include "banyan/job/test_job.h"
#include "banyan/testing/test.h"

namespace banyan::job::chakra {
namespace {

constexpr int64_t kCompute = 4, kSend = 5, kReceive = 6, kCollective = 7;

TraceNode node_of(uint64_t id, int64_t type, std::vector<uint64_t> needs = {}) {
  TraceNode node;
  node.id = id;
  node.name = "n" + std::to_string(id);
  node.type = type;
  node.data_dependencies = std::move(needs);
  return node;
}
TraceNode compute(uint64_t id, uint64_t micros, std::vector<uint64_t> needs = {}) {
  TraceNode node = node_of(id, kCompute, std::move(needs));
  node.duration_micros = micros;
  return node;
}
TraceNode collective(uint64_t id, int64_t kind, int64_t bytes, std::optional<std::string> group = {}) {
  TraceNode node = node_of(id, kCollective);
  node.is_cpu_op = 0;
  node.comm_type = kind;
  node.comm_size = bytes;
  node.pg_name = std::move(group);
  return node;
}
TraceNode message(uint64_t id, int64_t type, int64_t peer, int64_t bytes) {
  TraceNode node = node_of(id, type);
  (type == kSend ? node.comm_dst : node.comm_src) = peer;
  node.comm_size = bytes;
  return node;
}

std::string file_of(const std::vector<TraceNode>& nodes) {
  std::string file = metadata_message();
  for (const TraceNode& node : nodes) append_node(node, file);
  return file;
}

Job job_of(const std::vector<std::string>& files, std::string_view groups = "", const Options& options = {}) {
  std::vector<TraceText> texts;
  for (const std::string& file : files) texts.push_back({"t." + std::to_string(texts.size()) + ".et", file});
  return parse_job(texts, groups, options);
}
// Of a single rank.
Job job_of(const std::vector<TraceNode>& nodes, const Options& options = {}) {
  return job_of({file_of(nodes)}, "", options);
}

template <typename Read>
std::string error_from(Read&& read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
    EXPECT_LT(std::string(error.what()).size(), 600u);
    return error.what();
  }
  return "";
}
std::string error_of(const std::vector<std::string>& files, std::string_view groups = "", const Options& options = {}) {
  return error_from([&] { job_of(files, groups, options); });
}
std::string error_of(const std::vector<TraceNode>& nodes, const Options& options = {}) {
  return error_of({file_of(nodes)}, "", options);
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

TEST(Chakra, ReadsEveryKindOfNode) {
  TraceNode load = node_of(12, 2, {11});
  load.tensor_size = 4096;
  load.duration_micros = 3;
  TraceNode broadcast = collective(14, 5, 64, "7");
  broadcast.comm_src = 1;
  TraceNode on_stream = compute(15, 2, {14});
  on_stream.stream = 9;
  on_stream.num_ops = 1000;
  TraceNode on_host = compute(16, 4);
  on_host.is_cpu_op = 1;
  TraceNode send = message(17, kSend, 1, 128);
  send.comm_tag = 5;
  const std::vector<TraceNode> nodes = {compute(11, 7), load, collective(13, 0, 256), broadcast, on_stream,
                                        on_host,        send};
  TraceNode receive = message(3, kReceive, -1, 128);
  receive.comm_tag = -1;
  const Job job = job_of({file_of(nodes), file_of({receive})}, R"({"7": [1, 0]})");
  EXPECT_EQ(describe(job),
            "group 'all ranks' of 0,1\n"
            "group '7' of 1,0\n"
            "rank 0 stream 'compute' order 1\n"
            "rank 0 stream 'memory' order 1\n"
            "rank 0 stream 'collectives' order 1\n"
            "rank 0 stream 'stream 9' order 1\n"
            "rank 0 stream 'host' order 1\n"
            "rank 0 stream 'messages' order 2\n"
            "rank 0 node 0 'n11' compute 7000000 ps 0.000000 FLOP on 'compute'\n"
            "rank 0 node 1 'n12' memory 3000000 ps 4096 B on 'memory' needs 0\n"
            "rank 0 node 2 'n13' collective allreduce 256 B root 0 in 'all ranks' on 'collectives'\n"
            "rank 0 node 3 'n14' collective broadcast 64 B root 0 in '7' on 'collectives'\n"
            "rank 0 node 4 'n15' compute 2000000 ps 1000.000000 FLOP on 'stream 9' needs 3\n"
            "rank 0 node 5 'n16' host 4000000 ps on 'host'\n"
            "rank 0 node 6 'n17' send 128 B to 1 tag 5 on 'messages'\n"
            "rank 1 stream 'messages' order 2\n"
            "rank 1 node 0 'n3' receive 128 B from anybody tag any on 'messages'\n");
}

TEST(Chakra, TakesNodesInAnyOrderAndAnyIds) {
  const Job job = job_of({compute(UINT64_MAX, 1, {5, 0}), compute(5, 2, {0}), compute(0, 3)});
  EXPECT_THAT(job.program(0).needs(0), ElementsAre(1, 2));
  EXPECT_THAT(job.program(0).needs(1), ElementsAre(2));
  EXPECT_THAT(error_of({compute(4, 1), compute(7, 1, {4, 9})}),
              HasSubstr("t.0.et node 7 'n7': has a data dependency on node 9, which is not there"));
  EXPECT_THAT(error_of({compute(4, 1), compute(4, 1)}),
              AllOf(HasSubstr("t.0.et byte "), HasSubstr("node 4 'n4': this id is there twice")));
  EXPECT_THAT(error_of({compute(4, 1, {7}), compute(7, 1, {4})}),
              HasSubstr("rank 0: nodes wait for one another in a circle: 'n4' (node 0) needs 'n7' (node 1)"));
}

TEST(Chakra, HonoursControlDependenciesUnlessAskedNotTo) {
  TraceNode second = compute(2, 1);
  second.control_dependencies = {1};
  EXPECT_THAT(job_of({compute(1, 1), second}).program(0).needs(1), ElementsAre(0));
  TraceNode stray = compute(2, 1);
  stray.control_dependencies = {9};
  EXPECT_THAT(error_of({compute(1, 1), stray}),
              AllOf(HasSubstr("has a control dependency on node 9, which is not there"),
                    HasSubstr("(--data-dependencies-only)")));
  EXPECT_THAT(job_of({compute(1, 1), second}, {.control_dependencies = false}).program(0).needs(1), IsEmpty());
}

TEST(Chakra, TakesTheSizeOfGathersAsAskedAndAllOthersAsTotals) {
  for (int64_t kind = 0; kind < 9; ++kind) {
    const std::string file = file_of({collective(1, kind, 100)});
    const auto bytes = [&](Options::GatherSize size) {
      return job_of({file, file, file}, "", {.gather_size = size}).program(0).nodes[0].bytes;
    };
    const bool is_gathering = kind == 2 || kind == 3;
    EXPECT_EQ(bytes(Options::GatherSize::shard), is_gathering ? 300u : 100u) << kind;
    EXPECT_EQ(bytes(Options::GatherSize::total), 100u) << kind;
  }
  TraceNode barrier = collective(1, 9, 1);
  barrier.comm_size.reset();
  EXPECT_EQ(job_of({barrier}).program(0).nodes[0].collective, CollectiveKind::barrier);
}

// The converter's host nodes record_param_comms and nccl:all_reduce stand around the kernel that does the work.
TEST(Chakra, CountsCollectivesOfTheDeviceAndNotTheirWrappers) {
  TraceNode bare = node_of(1, kCollective);
  bare.is_cpu_op = 1;
  TraceNode sized = collective(2, 0, 800);
  sized.is_cpu_op = 1;
  const auto kinds = [](const Job& job) {
    std::string text;
    for (const Node& node : job.program(0).nodes) text += std::string(to_string(node.kind)) + " ";
    return text;
  };
  EXPECT_EQ(kinds(job_of({bare, sized, collective(3, 0, 800)})), "marker marker collective ");
  // Without any on the device (Gloo), those of the host are all there is.
  EXPECT_EQ(kinds(job_of({bare, sized})), "marker collective ");
  TraceNode device = node_of(4, kCollective);
  EXPECT_THAT(error_of({device}), HasSubstr("node 4 'n4': has no comm_type"));
  device.comm_type = 3;
  EXPECT_THAT(error_of({device}), HasSubstr("has no comm_size"));
}

TEST(Chakra, IgnoresTheCollectiveTypeOfMessages) {
  TraceNode send = message(1, kSend, 1, 8), receive = message(1, kReceive, 0, 8);
  send.comm_type = 5;
  receive.comm_type = 77;
  const Job job = job_of({file_of({send}), file_of({receive})});
  EXPECT_THAT(check_job(job), IsEmpty());
}

TEST(Chakra, FindsGroupsInTheTraceItself) {
  const std::string plain =
      R"([{"pg_name": "3", "pg_desc": "tp", "ranks": [1, 0], "group_size": 2}, {"pg_name": "4", "ranks": [], "group_size": 3}])";
  for (const std::string& printed :
       {"['" + plain + "']", plain,
        "[\"" + std::string(R"([{\"pg_name\": \"3\", \"ranks\": [1, 0]}, {\"pg_name\": \"4\", \"ranks\": []}])") +
            "\"]"}) {
    TraceNode init = node_of(9, 1);
    init.name = "## process_group:init ##";
    init.input_values = printed;
    // Declared behind its use: nodes need not be sorted.
    const std::string file = file_of({collective(1, 0, 8, "3"), collective(2, 0, 8, "4"), init});
    const std::string other = file_of({collective(2, 0, 8, "4"), init});
    const Job job = job_of({file, file, other});
    ASSERT_EQ(job.groups().size(), 2u) << printed;
    EXPECT_THAT(job.groups()[0].ranks, ElementsAre(1, 0));
    EXPECT_THAT(job.groups()[1].ranks, ElementsAre(0, 1, 2));
    EXPECT_THAT(check_job(job), IsEmpty());
  }
}

TEST(Chakra, KeepsGroupsOfOneNameButOtherRanksApart) {
  const auto file = [](const std::string& ranks) {
    TraceNode init = node_of(9, 1);
    init.name = "## process_group:init ##";
    init.input_values = R"(['[{"pg_name": "1", "ranks": )" + ranks + "}]']";
    return file_of({init, collective(1, 0, 8, "1")});
  };
  const Job job = job_of({file("[0, 1]"), file("[0, 1]"), file("[2, 3]"), file("[2, 3]")});
  ASSERT_EQ(job.groups().size(), 2u);
  EXPECT_EQ(job.group(1, 0), 0u);
  EXPECT_EQ(job.group(2, 0), 1u);
}

TEST(Chakra, NamesGroupsThatAreNotKnown) {
  const std::string file = file_of({collective(8, 0, 8, "12")});
  EXPECT_EQ(error_of({file}),
            "t.0.et node 8 'n8': group '12' is not known; add it to the groups file, {\"12\": [ranks]}");
  EXPECT_THAT(error_of({file}, R"({"12": [0, 1]})"),
              HasSubstr("groups: group '12' names rank 1, but there are traces of ranks 0 to 0"));
  EXPECT_THAT(error_of({file, file}, R"({"12": [1]})"), HasSubstr("of which rank 0 is not a member"));
  EXPECT_THAT(error_of({file}, R"([1])"), HasSubstr("groups: is not a table of groups"));
  EXPECT_THAT(error_of({file}, R"({"12": 0})"), HasSubstr("group '12' is not a list of ranks"));
  EXPECT_EQ(error_of({file_of({collective(8, 0, 8, "0")})}), "");  // PyTorch's name for all
}

// 2 x 3 ranks, the first dimension fastest: rank 4 is at (0, 2).
TEST(Chakra, UnfoldsInvolvedDimensions) {
  TraceNode first = collective(1, 0, 8), second = collective(2, 0, 8), both = collective(3, 0, 8);
  first.involved_dim = {true, false};
  second.involved_dim = {false, true, true, true};
  both.involved_dim = {true, true};
  const std::string file = file_of({first, second, both});
  const std::vector<std::string> files(6, file);
  const Job job = job_of(files, "", {.dimensions = {2, 3}});
  EXPECT_THAT(job.groups()[job.group(4, 0)].ranks, ElementsAre(4, 5));
  EXPECT_THAT(job.groups()[job.group(4, 1)].ranks, ElementsAre(0, 2, 4));
  EXPECT_THAT(job.groups()[job.group(4, 2)].ranks, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(check_job(job), IsEmpty());
  EXPECT_THAT(error_of(files, "", {}),
              HasSubstr("`dimensions` (--dimensions) must give their sizes, whose product is the number of ranks, 6"));
  EXPECT_THAT(error_of(files, "", {.dimensions = {2, 2}}), HasSubstr("`dimensions`"));
}

TEST(Chakra, ComputesDurationsFromWorkByARoofline) {
  TraceNode node = node_of(1, kCompute);
  node.num_ops = 3000;
  node.tensor_size = 500;
  const auto duration = [&](double flop, double bytes) {
    return job_of({node}, {.flop_per_second = flop, .bytes_per_second = bytes}).program(0).nodes[0].duration;
  };
  EXPECT_EQ(duration(1e12, 1e12), Picoseconds(3000));
  EXPECT_EQ(duration(1e12, 1e11), Picoseconds(5000));
  EXPECT_THAT(error_of({node}),
              HasSubstr("node 1 'n1': has no duration but num_ops; give a rate, flop_per_second (--flops)"));
  EXPECT_THAT(error_of({node}, {.flop_per_second = 1}),
              HasSubstr("tensor_size; give a rate, bytes_per_second (--memory-bandwidth)"));
  EXPECT_THAT(error_of({node}, {.flop_per_second = 1e-9, .bytes_per_second = 1}), HasSubstr("more than 11 days"));
  node.duration_micros = 9;
  EXPECT_EQ(job_of({node}).program(0).nodes[0].duration, std::chrono::microseconds(9));
  EXPECT_EQ(job_of({compute(1, 0)}).program(0).nodes[0].duration, Picoseconds(0));  // a kernel under 1 us
}

TEST(Chakra, RefusesNumbersOutOfRange) {
  EXPECT_THAT(error_of({compute(1, static_cast<uint64_t>(-5))}), HasSubstr("its duration is negative"));
  EXPECT_THAT(error_of({compute(1, uint64_t{1} << 62)}), HasSubstr("us is above 13 days"));
  EXPECT_THAT(error_of({collective(1, 0, -8)}), HasSubstr("comm_size is negative, -8"));
  EXPECT_THAT(error_of({collective(1, 0, INT64_MAX)}), HasSubstr("above 2^60"));
  EXPECT_THAT(error_of({collective(1, 10, 8)}), HasSubstr("comm_type 10 is not known"));
  const std::string huge = file_of({collective(1, 2, int64_t{1} << 60)});
  EXPECT_THAT(error_of({huge, huge}), HasSubstr("comm_size 1152921504606846976 times 2 members is above 2^60 bytes"));
  EXPECT_THAT(error_of({message(1, kSend, 0, 8)}), HasSubstr("comm_dst is the rank itself"));
  EXPECT_THAT(error_of({message(1, kSend, 3, 8)}), HasSubstr("comm_dst is 3, but there are traces of ranks 0 to 0"));
  EXPECT_THAT(error_of({message(1, kSend, -1, 8)}), HasSubstr("comm_dst is negative, -1"));
  TraceNode tagged = message(1, kSend, 1, 8);
  tagged.comm_tag = -1;
  EXPECT_THAT(error_of({file_of({tagged}), file_of({})}), HasSubstr("comm_tag -1 is not in 0 to"));
  TraceNode rooted = collective(1, 5, 8);
  rooted.comm_src = 4;
  EXPECT_THAT(error_of({rooted}), HasSubstr("its root, rank 4, is not a member of its group"));
  EXPECT_THAT(error_of({node_of(1, 0)}), HasSubstr("is of type 0, which no node may have"));
  EXPECT_THAT(error_of({node_of(1, 8)}), HasSubstr("is of type 8, which is not known"));
  EXPECT_THAT(error_of(std::vector<std::string>{}), HasSubstr("there are no traces"));
}

TEST(Chakra, TellsWhereAFileIsCutOffOrDamaged) {
  const std::string whole = file_of({compute(1, 5), compute(2, 6, {1})});
  EXPECT_EQ(error_of({whole}), "");
  size_t good = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string error = error_of({whole.substr(0, size)});
    good += error.empty();  // at the end of a message; there is no end marker
    EXPECT_THAT(error, ::testing::AnyOf(IsEmpty(), StartsWith("t.0.et byte ")));
  }
  EXPECT_EQ(good, 2u);
  EXPECT_THAT(error_of({whole.substr(0, whole.size() - 3)}),
              AllOf(HasSubstr("after node 1 'n1'"), HasSubstr("the file is cut off")));
  EXPECT_THAT(error_of({whole + '\0'}), HasSubstr("a message of length 0 is no node"));
  EXPECT_THAT(error_of({whole + "\xff\xff\xff\x7f"}), HasSubstr("a message of 268435455 bytes is above the limit"));
  EXPECT_THAT(error_of({whole + "\xff\xff\xff\xff\xff\x01"}), HasSubstr("more than five bytes"));
  EXPECT_THAT(error_of({whole + "\x03\x0a\x7f\x01"}), HasSubstr("a message of 3 bytes is damaged"));
  EXPECT_THAT(error_of(std::vector<std::string>{""}), HasSubstr("t.0.et byte 0: is empty"));
}

TEST(Chakra, ReadsGzipAndBoundsWhatItUnpacksTo) {
  const std::string whole = file_of({compute(1, 5), compute(2, 6, {1})});
  const std::string packed = gzip(whole);
  EXPECT_EQ(describe(job_of(std::vector{packed})), describe(job_of(std::vector{whole})));
  EXPECT_THAT(error_of({packed.substr(0, packed.size() / 2)}), AllOf(StartsWith("t.0.et byte "), HasSubstr("gzip")));

  // A name of zeros that packs 1,000 : 1, many times.
  TraceNode bomb = compute(1, 1);
  bomb.input_values.assign(4'000'000, 'x');
  std::string file = metadata_message();
  for (uint64_t id = 1; id <= 40; ++id) {
    bomb.id = id;
    append_node(bomb, file);
  }
  EXPECT_THAT(error_of({gzip(file)}), HasSubstr("unpacks to more than 200 times its size"));
}

TEST(Chakra, AcceptsOtherVersionsAndFilesWithoutMetadata) {
  std::string nodes;
  append_node(compute(1, 5), nodes);
  EXPECT_EQ(job_of(std::vector{nodes}).node_count(), 1u);
  EXPECT_EQ(job_of(std::vector{std::string(1, '\0') + nodes}).node_count(), 1u);  // version ""
  EXPECT_EQ(job_of(std::vector{std::string("\x07\x0a\x05"
                                           "0.0.4") +
                               nodes})
                .node_count(),
            1u);
}

// By hand, against the schema: fields, packed and not, every width of integers.
TEST(Chakra, ReadsTheWireFormat) {
  const std::string metadata("\x02\x0a\x00", 3);
  const auto attribute = [](std::string name, const std::string& value) {
    std::string text = "\x0a" + std::string(1, static_cast<char>(name.size())) + name + value;
    return "\x52" + std::string(1, static_cast<char>(text.size())) + text;
  };
  const auto node = [](const std::string& text) { return std::string(1, static_cast<char>(text.size())) + text; };
  const std::string first =
      node(std::string("\x08\x01\x12\x01"
                       "a"
                       "\x18\x04\x38\x05",
                       9));
  const std::string second =
      node(std::string("\x08\x02\x12\x01"
                       "b"
                       "\x18\x04\x38\x06\x22\x01\x01",
                       12));  // packed control
  const std::string collective_start = std::string(
      "\x08\x03\x12\x01"
      "c"
      "\x18\x07",
      7);
  for (const std::string& size :
       {std::string("\x38\x10"), std::string("\x48\x10"), std::string("\x58\x10"), std::string("\x68\x10"),
        std::string("\x78\x20"), std::string("\x88\x01\x20"), std::string("\x9d\x01\x10\x00\x00\x00", 6),
        std::string("\xa9\x01\x10\x00\x00\x00\x00\x00\x00\x00", 10), std::string("\xbd\x01\x10\x00\x00\x00", 6),
        std::string("\xc9\x01\x10\x00\x00\x00\x00\x00\x00\x00", 10),
        std::string("\x19\x00\x00\x00\x00\x00\x00\x30\x40", 9), std::string("\x2d\x00\x00\x80\x41", 5)}) {
    const std::string third =
        node(collective_start + std::string("\x28\x01\x2a\x01\x02", 5) +  // data: one alone, one packed
             attribute("comm_type", "\x38" + std::string(1, '\0')) + attribute("comm_size", size) +
             attribute("is_cpu_op", std::string("\xd8\x01\x00", 3)));
    EXPECT_EQ(describe(job_of(std::vector{metadata + first + second + third})),
              "group 'all ranks' of 0\n"
              "rank 0 stream 'compute' order 1\n"
              "rank 0 stream 'collectives' order 1\n"
              "rank 0 node 0 'a' compute 5000000 ps 0.000000 FLOP on 'compute'\n"
              "rank 0 node 1 'b' compute 6000000 ps 0.000000 FLOP on 'compute' needs 0\n"
              "rank 0 node 2 'c' collective allreduce 16 B root 0 in 'all ranks' on 'collectives' needs 0,1\n");
  }
}

TEST(Chakra, ReadsJsonInItsSpellings) {
  const char* const expected =
      "group 'all ranks' of 0\n"
      "rank 0 stream 'compute' order 1\n"
      "rank 0 stream 'collectives' order 1\n"
      "rank 0 node 0 'a' compute 5000000 ps 0.000000 FLOP on 'compute'\n"
      "rank 0 node 1 'c' collective allgather 64 B root 0 in 'all ranks' on 'collectives' needs 0\n";
  for (const char* text : {
           R"({"workload_graph": [
             {"Id": 1, "Name": "a", "NodeType": 4, "is_cpu_op": false, "runtime": 5, "data_deps": []},
             {"Id": 2, "Name": "c", "NodeType": 7, "is_cpu_op": false, "data_deps": [1], "comm_type": 2, "comm_size": 64}]})",
           R"({"schema": "1.0.0", "nodes": [
             {"id": "1", "name": "a", "type": "COMP_NODE", "durationMicros": "5"},
             {"id": "2", "name": "c", "type": "COMM_COLL_NODE", "ctrlDeps": ["1"],
              "attr": [{"name": "is_cpu_op", "boolVal": false}, {"name": "comm_type", "int64Val": "2"},
                       {"name": "comm_size", "int64Val": "64"}]}]})",
           R"([{"id": 1, "name": "a", "node_type": "comp_node", "duration_micros": 5.0},
               {"id": 2, "name": "c", "node_type": "CommCollNode", "data_dep": [1], "comm_type": "ALL_GATHER", "comm_size": 64}])",
           // As chakra_jsonizer writes it.
           R"({
  "version": "0.0.4"
}{
  "id": "1", "name": "a", "type": "COMP_NODE", "durationMicros": "5"
}{
  "id": "2", "name": "c", "type": "COMM_COLL_NODE", "dataDeps": ["1"],
  "attr": [{"name": "is_cpu_op", "boolVal": false}, {"name": "comm_type", "int64Val": "2"},
           {"name": "comm_size", "int64Val": "64"}]
}
)",
           "{\"id\": 1, \"name\": \"a\", \"type\": 4, \"duration\": 5}\n"
           "{\"id\": 2, \"name\": \"c\", \"type\": 7, \"deps\": [1], \"comm_type\": 2, \"comm_size\": 64, "
           "\"is_cpu_op\": false}\n"}) {
    EXPECT_EQ(describe(job_of(std::vector<std::string>{text})), expected) << text;
  }
  EXPECT_THAT(error_of(std::vector<std::string>{R"({"a": 1})"}), HasSubstr("neither 'workload_graph' nor 'nodes'"));
  EXPECT_THAT(
      error_of(std::vector<std::string>{R"({"version": "0.0.4"}{"id": 1, "type": 4, "duration": 1}{"name": "b"})"}),
      AllOf(StartsWith("t.0.et"), HasSubstr("event 2"), HasSubstr("a node has no id")));
  EXPECT_THAT(
      error_of(std::vector<std::string>{R"({"version": "0.0.4"}{"id": 1, "type": 4, "duration": 1}{"id": 2, )"}),
      HasSubstr("is the file whole, and JSON?"));
  EXPECT_THAT(error_of(std::vector<std::string>{R"([{"name": "a"}])"}),
              AllOf(StartsWith("t.0.et"), HasSubstr("a node has no id")));
  EXPECT_THAT(error_of(std::vector<std::string>{R"([{"id": 1, "type": 4, "duration": -5}])"}),
              HasSubstr("'duration' is negative"));
  EXPECT_THAT(error_of(std::vector<std::string>{R"([{"id": 1, "type": 4, "duration")"}), StartsWith("t.0.et"));
  EXPECT_THAT(error_of(std::vector<std::string>{R"([{"id": 1, "type": "x"}])"}), HasSubstr("node type"));
}

// A binary file whose metadata is as long as '{' is large.
TEST(Chakra, DoesNotTakeBinaryFilesForJson) {
  for (const size_t size : {size_t{'{'}, size_t{'['}}) {
    const std::string file = std::string(1, static_cast<char>(size)) + "\x0a" +
                             std::string(1, static_cast<char>(size - 2)) + std::string(size - 2, '1');
    std::string nodes;
    append_node(compute(1, 5), nodes);
    EXPECT_EQ(job_of(std::vector{file + nodes}).node_count(), 1u);
  }
}

// Any job that a trace can say: kinds, streams, groups, dependencies from a seed.
Job random_job(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t bound) { return random() % bound; };
  std::vector<std::string> files;
  for (int64_t rank = 0; rank < 3; ++rank) {
    std::vector<TraceNode> nodes;
    const uint64_t count = 1 + below(25);
    for (uint64_t i = 0; i < count; ++i) {
      const int64_t types[] = {1, 2, kCompute, kCompute, kSend, kReceive, kCollective, kCollective};
      TraceNode node = node_of(i * 7 + 3, types[below(8)]);
      for (uint64_t edges = below(3); edges > 0 && i > 0; --edges) node.data_dependencies.push_back(below(i) * 7 + 3);
      if (below(3) == 0) node.stream = static_cast<int64_t>(below(4));
      const auto other = static_cast<int64_t>((static_cast<uint64_t>(rank) + 1 + below(2)) % 3);
      if (node.type == kSend) node.comm_dst = other;
      if (node.type == kReceive) node.comm_src = below(4) == 0 ? -1 : other;
      if (node.type >= kSend) node.comm_size = static_cast<int64_t>(below(1 << 20) * 3);
      if (node.type == kCollective) {
        node.comm_type = static_cast<int64_t>(below(10));
        node.pg_name = below(3) == 0 ? std::nullopt : std::optional<std::string>(below(2) == 0 ? "tp" : "0");
        if (*node.comm_type == 5 || *node.comm_type == 4) node.comm_src = static_cast<int64_t>(below(3));
        if (*node.comm_type == 1 || *node.comm_type == 3) node.comm_dst = static_cast<int64_t>(below(3));
      }
      if (node.type == 2) node.tensor_size = static_cast<int64_t>(below(1000));
      if (node.type == kCompute) node.is_cpu_op = static_cast<int64_t>(below(2));
      if (node.type == kCompute && below(2) == 0) node.num_ops = static_cast<int64_t>(below(1'000'000));
      if (below(2) == 0) {
        node.duration_micros = below(100'000) + 1;
      } else {
        node.duration_ps = static_cast<int64_t>(below(100'000));
      }
      nodes.push_back(node);
    }
    files.push_back(file_of(nodes));
  }
  return job_of(files, R"({"tp": [2, 0, 1]})");
}

TEST(Chakra, ReadsBackWhatItWrote) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Job job = random_job(seed);
    for (const auto size : {Options::GatherSize::shard, Options::GatherSize::total}) {
      const Files files = write_job(job, {.gather_size = size});
      const Job again = job_of(files.traces, files.groups, {.gather_size = size});
      ASSERT_EQ(describe(again), describe(job)) << "seed " << seed;
      ASSERT_EQ(write_job(again, {.gather_size = size}).traces, files.traces) << "seed " << seed;
    }
  }
}

TEST(Chakra, WritesJobsThatDoNotComeFromIt) {
  Job::Builder builder("test");
  builder.add_group("tp", {0, 1});
  builder.add_group("tp", {1, 0});
  builder.begin_program();
  builder.add_stream({"GPU", Stream::Order::program});
  const uint32_t name = builder.add_name("x");
  builder.add_node({.name = name, .duration = Picoseconds(1'500'000), .flop = 12});
  builder.add_node({.kind = NodeKind::collective, .name = name, .slot = 1, .bytes = 64});
  builder.add_node({.kind = NodeKind::collective, .name = name, .slot = 0, .bytes = 32});
  for (uint32_t rank = 0; rank < 2; ++rank) builder.add_rank(0, std::vector{0u, 1u}, {});
  const Files files = write_job(std::move(builder).build());
  EXPECT_EQ(files.groups, R"({"0":[0,1],"1":[1,0]})");
  const Job again = job_of(files.traces, files.groups);
  EXPECT_THAT(describe(again),
              HasSubstr("rank 1 stream 'stream 0' order 1\n"
                        "rank 1 node 0 'x' compute 1500000 ps 12.000000 FLOP on 'stream 0'\n"
                        "rank 1 node 1 'x' collective allreduce 64 B root 0 in '1' on 'stream 0' needs 0\n"
                        "rank 1 node 2 'x' collective allreduce 32 B root 0 in '0' on 'stream 0' needs 1\n"));
}

TEST(Chakra, RefusesToWriteWhatItHasNoWordsFor) {
  const auto error = [](Stream::Order order, Node second, bool follows) {
    Job::Builder builder("test");
    builder.add_group("g", {0});
    builder.begin_program();
    builder.add_stream({"s", order});
    builder.add_node({.name = builder.add_name("first")});
    second.name = builder.add_name("second");
    builder.add_node(second);
    if (follows) builder.add_follow(1, 0);
    if (second.kind == NodeKind::collective) {
      builder.add_rank(0, std::vector{0u}, {});
    } else {
      builder.add_rank(0, {}, {});
    }
    const Job job = std::move(builder).build();
    return error_from([&] { write_job(job); });
  };
  EXPECT_THAT(error(Stream::Order::ready, {}, true),
              HasSubstr("rank 0 node 1 'second' starts after others have started"));
  EXPECT_THAT(error(Stream::Order::free, {.duration = Picoseconds(5)}, false),
              HasSubstr("any number of things at once"));
  EXPECT_THAT(error(Stream::Order::free, {.kind = NodeKind::collective}, false),
              HasSubstr("any number of things at once"));
}

TEST(Chakra, FindsTheFilesOfAllRanks) {
  const auto folder = std::filesystem::temp_directory_path() / ("chakra_test." + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto path = [&](const std::string& name) { return (folder / name).string(); };
  const auto find = [&] { return find_files(path("run")); };
  EXPECT_THAT(error_from(find), HasSubstr("run.0.et is not there"));
  const std::string file = file_of({compute(1, 5), collective(2, 0, 8, "g")});
  for (int rank = 0; rank < 12; ++rank) {
    write_file(path("run." + std::to_string(rank) + (rank == 3 ? ".et.gz" : ".et")), rank == 3 ? gzip(file) : file);
  }
  write_file(path("run.txt"), "");
  write_file(path("groups.json"), R"({"g": [0,1,2,3,4,5,6,7,8,9,10,11]})");
  const auto files = find();
  ASSERT_EQ(files.size(), 12u);
  EXPECT_EQ(files[10], path("run.10.et"));
  EXPECT_EQ(read_job(files, path("groups.json")).node_count(), 24u);
  EXPECT_THAT(error_from([&] { read_job(files, path("none.json")); }), HasSubstr("none.json: cannot read it"));
  write_file(path("run.13.et"), file);
  EXPECT_THAT(error_from(find), HasSubstr("run.12.et is not there, but traces of higher ranks are"));
  write_file(path("run.0.json"), "[]");
  EXPECT_THAT(error_from(find), HasSubstr("are traces of rank 0; remove one"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace banyan::job::chakra
