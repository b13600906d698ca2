#include "banyan/job/kineto/trace.h"

#include <zlib.h>

#include "banyan/job/kineto/comm.h"
#include "banyan/job/text/json_stream.h"
#include "banyan/testing/test.h"

namespace banyan::job::kineto {
namespace {

Trace read(std::string_view text) { return read_trace(TraceSource::from_text(text, "test")); }

std::string packed(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(Trace, TimesAreExactToTheNanosecond) {
  // A double of this size counts in quarters of a microsecond.
  const Trace trace = read(
      R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1726134043823422.123, "dur": 4.007},
                          {"ph": "X", "cat": "Kernel", "name": "k", "pid": 0, "tid": "stream 7", "ts": 1726134043823430, "dur": 2},
                          {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": "1726134043823440.5", "dur": 1.5e1}]})");
  ASSERT_EQ(trace.events.size(), 3u);
  EXPECT_EQ(trace.events[0].start, 1726134043823422123);
  EXPECT_EQ(trace.events[0].duration, 4007);
  EXPECT_EQ(trace.events[1].start, 1726134043823430000);
  EXPECT_EQ(trace.events[1].track, trace.events[0].track);
  EXPECT_EQ(trace.events[2].start, 1726134043823440500);
  EXPECT_EQ(trace.events[2].duration, 15000);
}

TEST(Trace, BeginAndEndAreJoined) {
  const Trace trace = read(R"([{"ph": "B", "cat": "cpu_op", "name": "outer", "pid": 1, "tid": 2, "ts": 10},
                                     {"ph": "B", "cat": "cpu_op", "name": "inner", "pid": 1, "tid": 2, "ts": 12},
                                     {"ph": "E", "pid": 1, "tid": 2, "ts": 15},
                                     {"ph": "E", "pid": 1, "tid": 2, "ts": 20},
                                     {"ph": "E", "pid": 1, "tid": 2, "ts": 21},
                                     {"ph": "B", "cat": "cpu_op", "name": "open", "pid": 1, "tid": 2, "ts": 30},
                                     {"ph": "X", "cat": "cpu_op", "name": "next", "pid": 1, "tid": 2, "ts": 36, "dur": 1}])");
  ASSERT_EQ(trace.events.size(), 4u);
  EXPECT_EQ(trace.events[0].duration, 10'000);
  EXPECT_EQ(trace.events[1].duration, 3'000);
  EXPECT_EQ(trace.counts.ends_alone, 1u);
  EXPECT_EQ(trace.counts.without_end, 1u);
  EXPECT_EQ(trace.events[2].duration, 6'000);
}

TEST(Trace, AnEndIsOfWhatBeganLastEvenIfThatWasLeftOut) {
  const Trace trace = read(R"([{"ph": "B", "cat": "cpu_op", "name": "outer", "pid": 1, "tid": 2, "ts": 10},
                                     {"ph": "B", "cat": "python_function", "name": "f", "pid": 1, "tid": 2, "ts": 12},
                                     {"ph": "E", "cat": "python_function", "pid": 1, "tid": 2, "ts": 15},
                                     {"ph": "B", "cat": "python_function", "name": "g", "pid": 1, "tid": 2, "ts": 16},
                                     {"ph": "E", "pid": 1, "tid": 2, "ts": 18},
                                     {"ph": "E", "pid": 1, "tid": 2, "ts": 20},
                                     {"ph": "E", "cat": "python_function", "pid": 1, "tid": 2, "ts": 22},
                                     {"ph": "B", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 30, "args": {"stream": 9}},
                                     {"ph": "E", "pid": 0, "tid": 7, "ts": 34}])");
  ASSERT_EQ(trace.events.size(), 2u);
  EXPECT_EQ(trace.events[0].duration, 10'000);
  EXPECT_EQ(trace.events[1].duration, 4'000);
  EXPECT_EQ(trace.counts.ends_alone, 0u);
  EXPECT_EQ(trace.counts.without_end, 0u);
}

TEST(Trace, EndsBeforeTheirBeginAndWithoutATimeAreMended) {
  const Trace trace = read(R"([{"ph": "B", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 2, "ts": 10},
                                     {"ph": "E", "pid": 1, "tid": 2, "ts": 4},
                                     {"ph": "B", "cat": "cpu_op", "name": "b", "pid": 1, "tid": 2, "ts": 13},
                                     {"ph": "E", "pid": 1, "tid": 2},
                                     {"ph": "X", "cat": "cpu_op", "name": "c", "pid": 1, "tid": 2, "ts": 20, "dur": 1}])");
  ASSERT_EQ(trace.events.size(), 3u);
  EXPECT_EQ(trace.counts.without_end, 2u);
  EXPECT_EQ(trace.events[0].duration, 3'000);
  EXPECT_EQ(trace.events[1].duration, 7'000);
}

TEST(Trace, NegativeDurationsAndMissingTimesAreCounted) {
  const Trace trace = read(R"([{"ph": "X", "cat": "kernel", "name": "k", "tid": 7, "ts": 10, "dur": -5},
                                     {"ph": "X", "cat": "kernel", "name": "k", "tid": 7, "ts": 40, "dur": NaN},
                                     {"ph": "X", "cat": "kernel", "name": "k", "tid": 7, "ts": -Infinity, "dur": 1},
                                     {"ph": "X", "cat": "kernel", "name": "k", "tid": 7, "ts": 60}])");
  EXPECT_EQ(trace.counts.without_end, 3u);
  EXPECT_EQ(trace.counts.without_time, 1u);
  EXPECT_EQ(trace.counts.mended_text, 2u);
  ASSERT_EQ(trace.events.size(), 3u);
  EXPECT_EQ(trace.events[0].duration, 30'000);
  EXPECT_EQ(trace.events[1].duration, 20'000);
  EXPECT_EQ(trace.events[2].duration, 0);
}

TEST(Trace, TextThatIsNoJsonIsMendedAndCounted) {
  const Trace trace =
      read("[{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"C:\\path \xff\x01 \xc3\xa9\", \"ts\": 1, \"dur\": 1}]");
  EXPECT_EQ(trace.counts.mended_text, 3u);
  EXPECT_EQ(trace.names[trace.names.size() - 1], "C:\\path ?  \xc3\xa9");
}

// PyTorch 2.0 writes the names of Python functions as they are (pytorch issue 113001).
TEST(Trace, QuotesWithinNamesAreMendedAndCounted) {
  const auto name_of = [](const std::string& written) {
    const Trace trace =
        read(R"({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": ")" + written +
             "\",\n  \"pid\": 10, \"tid\": 10, \"ts\": 1, \"dur\": 50}, {\"ph\": \"X\", \"cat\": \"kernel\", "
             "\"ts\": 2, \"dur\": 900, \"name\": \"" +
             written + "\" }], \"traceName\": \"t\"}");
    EXPECT_EQ(trace.events.size(), 2u) << written;
    EXPECT_EQ(trace.names.size(), 1u) << written;
    return std::pair(trace.names[0], trace.counts.mended_text);
  };
  EXPECT_EQ(name_of("lib = Library(\"ops\", \"IMPL\")\n(1): <module>"),
            std::pair(std::string("lib = Library(\"ops\", \"IMPL\") (1): <module>"), uint64_t{10}));
  EXPECT_EQ(name_of("{\"a\": [\"b\"], \"c\"}"), std::pair(std::string("{\"a\": [\"b\"], \"c\"}"), uint64_t{12}));
  EXPECT_EQ(name_of("\"ends\""), std::pair(std::string("\"ends\""), uint64_t{4}));
  EXPECT_EQ(name_of("a, b: {c} \\\"d\\\""), std::pair(std::string("a, b: {c} \"d\""), uint64_t{0}));
}

TEST(Trace, QuotesThatEndTextsAreLeftAsTheyAre) {
  const std::string blanks(5000, ' ');
  const std::string text = "[{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\"" + blanks +
                           ", \"a\": [\"x\" , \"y\", \"z\"\n, 1, \"\"], " +
                           "\"args\": {\"b\": {\"c\": \"d\"}, \"e\": \"\"}, \"g\": \"\", \"" + std::string(5000, 'l') +
                           "\": \"m\", \"f\\\"\": \"\", \"ts\": 1, \"dur\": \"2\"}\n]\n";
  const Trace trace = read(text);
  EXPECT_EQ(trace.counts.mended_text, 0u);
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_EQ(trace.events[0].duration, 2000);
  EXPECT_EQ(trace.position, text.size());
}

TEST(Trace, CategoriesThatAreNotKnownAreCounted) {
  std::string text = R"([{"ph": "X", "cat": "mtia_ccp_events", "name": "a", "ts": 1, "dur": 9, "args": {"device": 0}},
                         {"ph": "X", "cat": "mtia_ccp_events", "name": "b", "ts": 1, "dur": 5, "args": {"stream": 7}},
                         {"ph": "X", "cat": "mtia_ccp_events", "name": "b", "ts": 1, "dur": -5},
                         {"ph": "B", "name": "b", "ts": 1}, {"ph": "E", "name": "b", "ts": 3},
                         {"ph": "X", "cat": "python_function", "name": "f", "ts": 1, "dur": 3},
                         {"ph": "X", "cat": "Trace", "name": "f", "ts": 1, "dur": 3})";
  for (int i = 0; i < 40; ++i)
    text += ",{\"ph\": \"X\", \"cat\": \"c" + std::to_string(i) + "\", \"ts\": 1, \"dur\": 1}";
  const Trace trace = read(text + "]");
  EXPECT_TRUE(trace.events.empty());
  ASSERT_EQ(trace.unknown.size(), UnknownCategory::kMost + 1);
  EXPECT_EQ(trace.unknown[0].name, "mtia_ccp_events");
  EXPECT_EQ(trace.unknown[0].events, 2u);
  EXPECT_TRUE(trace.unknown[0].on_device);
  EXPECT_EQ(trace.unknown[0].ns, 14'000);
  EXPECT_EQ(trace.unknown[1].name, "mtia_ccp_events");
  EXPECT_FALSE(trace.unknown[1].on_device);
  EXPECT_EQ(trace.unknown[2].name, "");
  EXPECT_EQ(trace.unknown[2].events, 1u);
  EXPECT_EQ(trace.unknown.back().name, "others");
  EXPECT_EQ(trace.unknown.back().events, 27u);
}

TEST(Trace, OnlyWhatEndsWithinTheEventsIsCut) {
  const std::string text =
      R"({"a": 1, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1}, {"ph": "X", "cat")";
  const Trace trace = read(text);
  EXPECT_TRUE(trace.counts.cut_files);
  EXPECT_EQ(trace.position, text.size());
  EXPECT_EQ(trace.events.size(), 1u);
  EXPECT_THROW(read("{\"a\": 1, \"trac"), Error);
  EXPECT_THROW(read("{\"traceEvents\": [{\"ph\": \"M\"}] \"x\": 1}"), Error);
}

TEST(Trace, GzipIsToldByItsContentAndMembersAreJoined) {
  const std::string one = R"([{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1},)", two = R"({"ph": "M"}])";
  const Trace trace = read(packed(one) + packed(two));
  EXPECT_EQ(trace.counts.events, 2u);
  std::string damaged = packed(one + two);
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 0x55);
  EXPECT_THROW(read(damaged), Error);
}

TEST(Trace, AGzipBombEndsInAnErrorAndNotInMemory) {
  const auto error_of = [](std::string_view text) { return testing::error_of([&] { read(text); }); };
  std::string text = "[{\"ph\": \"";
  text.append(size_t{80} << 20, 'x');
  EXPECT_THAT(error_of(text), ::testing::HasSubstr("a single text is longer than 64 MiB"));
  EXPECT_THAT(error_of(packed(text)), ::testing::HasSubstr("unpacks to more than 300 times its size"));
}

TEST(Trace, DeepNestingIsRefused) {
  std::string text = "[{\"args\": ";
  text.append(1000, '[');
  EXPECT_THROW(read(text), Error);
}

TEST(Trace, AnElementHasABoundedNumberOfValues) {
  std::string text = "[{\"ph\": \"M\", \"args\": [0";
  for (uint64_t i = 0; i < kMaxJsonValues; ++i) text += ",0";
  EXPECT_THAT(testing::error_of([&] { read(text + "]}]"); }),
              ::testing::HasSubstr("test event 0: holds more than 4194304 values"));
}

TEST(Trace, ListsOfRanksAreKeptOnce) {
  const std::string event = R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": {"Group size": 3,
      "Collective name": "allreduce", "Process Group Ranks": "[4, 5, 6]"}})";
  const Trace trace = read("[" + event + "," + event + "]");
  ASSERT_EQ(trace.comms.size(), 2u);
  ASSERT_EQ(trace.rank_lists.size(), 1u);
  EXPECT_EQ(trace.comms[0].ranks, 0u);
  EXPECT_EQ(trace.comms[1].ranks, 0u);
  EXPECT_THAT(trace.rank_lists[0], ElementsAre(4, 5, 6));
}

TEST(Trace, ShortenedListsOfATableStandForNoMoreThanARunHas) {
  std::string table = "[";
  for (int i = 0; i < 5; ++i) {
    table += (i > 0 ? "," : "") + ("{\"pg_name\": \"" + std::to_string(i)) +
             "\", \"pg_size\": 1000000, \"ranks\": \"[0, 1, ..., 999999]\"}";
  }
  EXPECT_THROW(read_group_table(table + "]"), Error);
}

TEST(Trace, GroupTablesComeInThreeSpellings) {
  const auto now = read_group_table(
      R"([{"pg_name": "0", "ranks": [], "group_size": 8}, {"pg_name": "3", "ranks": [1, 3], "pg_size": 2}])");
  ASSERT_EQ(now.size(), 2u);
  EXPECT_THAT(now[0].ranks, IsEmpty());
  EXPECT_EQ(now[0].size, 8u);
  EXPECT_THAT(now[1].ranks, ElementsAre(1, 3));
  const auto literal =
      read_group_table("[{'pg_id': 140538064364672, 'backend_config': 'cuda:nccl', 'ranks': {5: 1, 2: 0}, 'x': None}]");
  ASSERT_EQ(literal.size(), 1u);
  EXPECT_EQ(literal[0].name, "140538064364672");
  EXPECT_THAT(literal[0].ranks, ElementsAre(2, 5));
  const auto printed = read_group_table(R"([{"pg_name": "1", "pg_size": 3, "ranks": "[4, 5, 6]"}])");
  ASSERT_EQ(printed.size(), 1u);
  EXPECT_THAT(printed[0].ranks, ElementsAre(4, 5, 6));
  EXPECT_THAT(read_group_table("[{'ranks': [1]}, 7, {'pg_name': 'a', 'ranks': [1, 1]}]"), IsEmpty());
  EXPECT_THAT(read_group_table("]["), IsEmpty());
}

TEST(KinetoComm, ShortenedRankListsAreCompletedWhereTheyAreEven) {
  std::string text = "[0, 2, 4, 6";
  for (int i = 4; i < 29; ++i) text += ", " + std::to_string(2 * i);
  const auto ranks = read_rank_list(text + ", ..., 126]", 64);
  ASSERT_EQ(ranks.size(), 64u);
  EXPECT_EQ(ranks[40], 80u);
  EXPECT_THAT(read_rank_list(text + ", ..., 127]", 64), IsEmpty());
  EXPECT_THAT(read_rank_list("[0, 1, 2]", 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(read_rank_list("all", 3), IsEmpty());
}

TEST(KinetoComm, NamesOfCallsAndKernelsAreKnown) {
  const auto kind = [](std::string_view name) {
    CommCall call;
    return read_comm_name(name, call) == CommName::call && call.kind == CommCall::Kind::collective
               ? std::string(to_string(call.collective))
               : "-";
  };
  EXPECT_EQ(kind("allreduce_coalesced"), "allreduce");
  EXPECT_EQ(kind("_allgather_base"), "allgather");
  EXPECT_EQ(kind("nccl:_reduce_scatter_base"), "reduce-scatter");
  EXPECT_EQ(kind("reduce"), "reduce");
  EXPECT_EQ(kind("_reduce_oop"), "reduce");
  EXPECT_EQ(kind("all_to_allv"), "all-to-all");
  EXPECT_EQ(kind("c10d::alltoall_base_"), "all-to-all");
  EXPECT_EQ(kind("_broadcast_oop"), "broadcast");
  EXPECT_EQ(kind("barrier"), "barrier");
  CommCall call;
  EXPECT_EQ(read_comm_name("wait", call), CommName::wrapper);
  EXPECT_EQ(read_comm_name("init", call), CommName::wrapper);
  EXPECT_EQ(read_comm_name("aten::mm", call), CommName::none);
  EXPECT_EQ(read_comm_name("c10d::recv_any_source_", call), CommName::call);
  EXPECT_EQ(call.kind, CommCall::Kind::receive);
  const auto kernel = [](std::string_view name) {
    CommCall by_kernel;
    if (!read_kernel_name(name, by_kernel)) return std::string("-");
    return by_kernel.kind_known ? std::string(to_string(by_kernel.collective)) : "?";
  };
  EXPECT_EQ(kernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"), "allreduce");
  EXPECT_EQ(kernel("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"), "reduce-scatter");
  EXPECT_EQ(kernel("ncclDevKernel_Reduce_Sum_f32_RING_LL"), "reduce");
  EXPECT_EQ(kernel("ncclDevKernel_SendRecv(ncclDevKernelArgs)"), "?");
  EXPECT_EQ(kernel("ncclDevKernel_Generic_1(ncclDevKernelArgs)"), "?");
  EXPECT_EQ(kernel("void at::native::elementwise_kernel<AllReduce>"), "-");
}

TEST(KinetoComm, BytesAreTotals) {
  const auto bytes = [](CollectiveKind kind, std::optional<uint64_t> in, std::optional<uint64_t> out,
                        uint32_t members) {
    CommCall call;
    call.collective = kind;
    call.in_elements = in;
    call.out_elements = out;
    call.width = 2;
    bool fits = true;
    const auto total = comm_bytes(call, members, fits);
    return std::pair(total.value_or(UINT64_MAX), fits);
  };
  EXPECT_EQ(bytes(CollectiveKind::all_reduce, 100, 100, 8), std::pair(uint64_t{200}, true));
  EXPECT_EQ(bytes(CollectiveKind::all_gather, 100, 800, 8), std::pair(uint64_t{1600}, true));
  EXPECT_EQ(bytes(CollectiveKind::all_gather, 100, std::nullopt, 8), std::pair(uint64_t{1600}, true));
  EXPECT_EQ(bytes(CollectiveKind::all_gather, 100, 100, 8), std::pair(uint64_t{1600}, true));
  EXPECT_EQ(bytes(CollectiveKind::all_gather, 100, 700, 8), std::pair(uint64_t{1600}, false));
  EXPECT_EQ(bytes(CollectiveKind::reduce_scatter, 800, 100, 8), std::pair(uint64_t{1600}, true));
  EXPECT_EQ(bytes(CollectiveKind::all_to_all, 800, 640, 8), std::pair(uint64_t{1600}, true));
  EXPECT_EQ(bytes(CollectiveKind::gather, 100, 800, 8), std::pair(uint64_t{1600}, true));
  EXPECT_EQ(bytes(CollectiveKind::scatter, 0, 100, 8), std::pair(uint64_t{1600}, true));
  EXPECT_EQ(bytes(CollectiveKind::barrier, 1, 1, 8), std::pair(uint64_t{0}, true));
  EXPECT_EQ(bytes(CollectiveKind::broadcast, std::nullopt, std::nullopt, 8).first, UINT64_MAX);
  EXPECT_THROW(bytes(CollectiveKind::all_gather, uint64_t{1} << 58, std::nullopt, 1024), Error);
}

TEST(KinetoComm, WidthsOfElementsAreKnownInAllSpellings) {
  const std::pair<const char*, uint32_t> widths[] = {
      {"Float", 4},  {"BFloat16", 2},     {"c10::BFloat16", 2}, {"Tensor(float)", 4},
      {"Half", 2},   {"Byte", 1},         {"Float8_e4m3fn", 1}, {"Tensor(long int)", 8},
      {"Double", 8}, {"ComplexFloat", 8}, {"Bool", 1},          {"UInt16", 2},
      {"", 0},       {"string", 0}};
  for (const auto& [type, width] : widths) {
    EXPECT_EQ(element_width(type), width) << type;
  }
}

}  // namespace
}  // namespace banyan::job::kineto
