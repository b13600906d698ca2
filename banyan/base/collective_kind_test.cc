#include "banyan/base/collective_kind.h"

#include "banyan/testing/test.h"

namespace banyan {
namespace {

TEST(CollectiveKind, NamesRoundTrip) {
  for (const CollectiveTraits& traits : kCollectives) {
    EXPECT_EQ(parse_collective_kind(to_string(traits.kind)), traits.kind);
    EXPECT_EQ(find_collective_kind(traits.compact), traits.kind);
  }
}

TEST(CollectiveKind, IsFoundByTheNamesOfOtherLibraries) {
  for (const char* name : {"allreduce", "all-reduce", "all_reduce", "AllReduce", "ncclAllReduce", "rcclAllReduce",
                           "MPI_Allreduce", "all_reduce_perf"}) {
    EXPECT_EQ(find_collective_kind(name), CollectiveKind::all_reduce) << name;
  }
  for (const char* name : {"alltoall", "all-to-all", "all2all", "all_to_all_single", "MPI_Alltoall", "alltoall_perf"}) {
    EXPECT_EQ(find_collective_kind(name), CollectiveKind::all_to_all) << name;
  }
  for (const char* name : {"reduce_scatter_tensor", "MPI_Reduce_scatter_block", "ncclReduceScatter"}) {
    EXPECT_EQ(find_collective_kind(name), CollectiveKind::reduce_scatter) << name;
  }
  EXPECT_EQ(find_collective_kind("all_gather_into_tensor"), CollectiveKind::all_gather);
  EXPECT_EQ(find_collective_kind("MPI_Bcast"), CollectiveKind::broadcast);
  for (const std::string& name :
       {std::string(), std::string("allgatherv"), std::string("sendrecv"), std::string(1000, 'a')}) {
    EXPECT_EQ(find_collective_kind(name), std::nullopt) << name;
  }
}

std::string refusal_of(std::string_view text, bool (*is_known)(CollectiveKind)) {
  return testing::error_of([&] { parse_collective_kind(text, is_known); });
}

TEST(CollectiveKind, OneThatIsNotKnownHereIsRefusedWithThoseThatAre) {
  EXPECT_EQ(refusal_of("brodcast", is_planned),
            "unknown collective 'brodcast' (did you mean 'broadcast'?); known: allgather, reduce-scatter, allreduce, "
            "broadcast, reduce, all-to-all");
  EXPECT_THAT(refusal_of("barrier", is_planned), HasSubstr("unknown collective 'barrier'"));
  EXPECT_EQ(refusal_of("MPI_Barrier", is_rooted),
            "unknown collective 'MPI_Barrier'; known: broadcast, reduce, gather, "
            "scatter");
}

TEST(CollectiveKind, CorrectsBusbwAsNcclTestsDoes) {
  EXPECT_DOUBLE_EQ(busbw_factor(CollectiveKind::all_reduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(busbw_factor(CollectiveKind::all_reduce, 1), 0);
  for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                    CollectiveKind::all_to_all, CollectiveKind::gather, CollectiveKind::scatter}) {
    EXPECT_DOUBLE_EQ(busbw_factor(kind, 4), 0.75) << to_string(kind);
  }
  EXPECT_DOUBLE_EQ(busbw_factor(CollectiveKind::broadcast, 4), 1);
  EXPECT_DOUBLE_EQ(busbw_factor(CollectiveKind::reduce, 16), 1);
  EXPECT_DOUBLE_EQ(busbw_factor(CollectiveKind::barrier, 4), 0);
}

TEST(CollectiveKind, TraitsSayWhatEachKindDoes) {
  EXPECT_EQ(collective_names(is_rooted), "broadcast, reduce, gather, scatter");
  EXPECT_EQ(collective_names(reduces), "reduce-scatter, allreduce, reduce");
  EXPECT_EQ(collective_names(is_sharded), "allgather, reduce-scatter, all-to-all, gather, scatter");
}

}  // namespace
}  // namespace banyan
