#include "banyan/testing/brute_force_cuts.h"

#include "banyan/fabric/text.h"
#include "banyan/testing/test.h"

namespace banyan::testing {
namespace {

constexpr int128 kGiga = 1'000'000'000;

Fraction bound_of(std::string_view text, const Collective::Options& options) {
  const Fabric fabric = fabric::parse_fabric_text(text);
  return brute_force_seconds_per_byte(fabric, Collective::make(fabric, options));
}

TEST(BruteForceCuts, OneCableCarriesTheOtherShard) {
  EXPECT_EQ(bound_of("a <-> b 1GB/s", {.kind = CollectiveKind::all_gather}), Fraction(1, 2 * kGiga));
  EXPECT_EQ(bound_of("a <-> b 1GB/s", {.kind = CollectiveKind::reduce_scatter}), Fraction(1, 2 * kGiga));
  EXPECT_EQ(bound_of("a <-> b 1GB/s", {.kind = CollectiveKind::all_reduce}), Fraction(1, kGiga));
}

TEST(BruteForceCuts, RingIsBoundByWhatOneRankCanTakeIn) {
  // 3 of 4 shards over two cables.
  EXPECT_EQ(bound_of("a <-> b 1GB/s; b <-> c 1GB/s; c <-> d 1GB/s; d <-> a 1GB/s", {}), Fraction(3, 8 * kGiga));
}

TEST(BruteForceCuts, TwoBoxesAreBoundByTheirNics) {
  const char* boxes =
      "a0 <-> nvsw0 300GB/s; a1 <-> nvsw0 300GB/s; b0 <-> nvsw1 300GB/s; b1 <-> nvsw1 300GB/s;"
      "a0 <-> sw 25GB/s; a1 <-> sw 25GB/s; b0 <-> sw 25GB/s; b1 <-> sw 25GB/s";
  // A box of two must send 2 of 4 shards over 2 * 25 GB/s; one rank takes in 3 of 4 over 325 GB/s, which is less.
  EXPECT_EQ(bound_of(boxes, {}), Fraction(1, 100 * kGiga));
  const char* fast_nics =
      "a0 <-> nvsw0 30GB/s; a1 <-> nvsw0 30GB/s; b0 <-> nvsw1 30GB/s; b1 <-> nvsw1 30GB/s;"
      "a0 <-> sw 25GB/s; a1 <-> sw 25GB/s; b0 <-> sw 25GB/s; b1 <-> sw 25GB/s";
  // Here 3 / (4 * 55) beats 2 / (4 * 50).
  EXPECT_EQ(bound_of(fast_nics, {}), Fraction(3, 220 * kGiga));
}

TEST(BruteForceCuts, DirectionsMatter) {
  const char* uneven = "a -> b 1GB/s; b -> a 4GB/s";
  const NodeId a{0};
  EXPECT_EQ(bound_of(uneven, {.kind = CollectiveKind::broadcast, .root = a}), Fraction(1, kGiga));
  EXPECT_EQ(bound_of(uneven, {.kind = CollectiveKind::reduce, .root = a}), Fraction(1, 4 * kGiga));
  EXPECT_EQ(bound_of(uneven, {.kind = CollectiveKind::all_gather}), Fraction(1, 2 * kGiga));
  EXPECT_EQ(bound_of(uneven, {.kind = CollectiveKind::all_gather, .weights = {1, 7}}), Fraction(7, 32 * kGiga));
  EXPECT_EQ(bound_of(uneven, {.kind = CollectiveKind::reduce_scatter, .weights = {1, 7}}), Fraction(7, 8 * kGiga));
}

TEST(BruteForceCuts, DeletesRanksThatDoNotTakePart) {
  const char* triangle = "a <-> b 1GB/s; a <-> c 9GB/s; b <-> c 9GB/s";
  EXPECT_EQ(bound_of(triangle, {.ranks = {NodeId{0}, NodeId{1}}}), Fraction(1, 2 * kGiga));
  EXPECT_THROW(bound_of("a <-> c 1GB/s; c <-> b 1GB/s", {.ranks = {NodeId{0}, NodeId{2}}}), Error);
}

TEST(BruteForceCuts, RefusesWhatItCannotEnumerate) {
  std::string star;
  for (int i = 0; i < 20; ++i) star += "r" + std::to_string(i) + " <-> sw 1GB/s;";
  EXPECT_THROW(bound_of(star, {}), Error);
}

}  // namespace
}  // namespace banyan::testing
