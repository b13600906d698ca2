#include "banyan/service/protocol/validate.h"

#include <type_traits>

#include "banyan/service/protocol/test_call_model.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using element::DataType;
using element::ReduceOp;
using run::OperationKind;
using Reason = Refusal::Reason;

static_assert(!std::is_copy_constructible_v<ValidCall> && std::is_nothrow_move_constructible_v<ValidCall>);

constexpr uint32_t kRanks = 4, kRank = 2;

// Rank 2 of 4, who has offered 4096 bytes for what it sends, as many for what it receives, and as many for its counts.
class Validate : public ::testing::Test {
 protected:
  // A good submission of 10 float32, which is rooted at this rank, or goes to rank 1 or comes from it.
  Submission good(OperationKind kind) {
    Submission submission;
    submission.kind = static_cast<uint8_t>(kind);
    submission.type = static_cast<uint8_t>(DataType::float32);
    submission.sequence = rules_.next_sequence;
    submission.count = 10;
    submission.other = run::is_message(kind) ? 1 : kRank;
    submission.send = sent_.at(96);
    submission.recv = received_.at(128);
    submission.counts = counts_.at(8);
    if (kind == OperationKind::all_to_all_v) write_counts({1, 2, 3, 4, 5, 6, 3, 8});
    if (kind == OperationKind::all_gather_v || kind == OperationKind::reduce_scatter_v) write_counts({1, 2, 3, 4});
    return submission;
  }
  void write_counts(const std::vector<uint64_t>& numbers) {
    std::ranges::copy(std::as_bytes(std::span(numbers)), counts_.data + 8);
  }
  Submission with_displacements(OperationKind kind, const std::vector<uint64_t>& lists) {
    Submission submission = good(kind);
    submission.flags = static_cast<uint32_t>(SubmissionFlag::has_displacements);
    write_counts(lists);
    return submission;
  }

  ValidCall accepted(const Submission& submission) {
    std::variant<ValidCall, Refusal> answer = validate(submission, rules_, table_);
    if (const Refusal* const refusal = std::get_if<Refusal>(&answer)) {
      ADD_FAILURE() << to_string(refusal->reason) << ": " << refusal->words;
      return {};
    }
    ValidCall valid = std::get<ValidCall>(std::move(answer));
    EXPECT_EQ(fault_of(valid, rules_, all()), "");
    return valid;
  }
  // "reason: words"; "accepted" when it is not refused.
  std::string refused(const Submission& submission) {
    const std::variant<ValidCall, Refusal> answer = validate(submission, rules_, table_);
    const Refusal* const refusal = std::get_if<Refusal>(&answer);
    if (refusal == nullptr) return "accepted";
    return std::string(to_string(refusal->reason)) + ": " + refusal->words;
  }
  std::vector<OfferedMemory> all() const { return {sent_, received_, counts_}; }

  SessionRules rules_{.rank = kRank, .size = kRanks, .next_sequence = 9};
  RegionTable table_{{}};
  const OfferedMemory sent_ = offer_memory(table_, 4096), received_ = offer_memory(table_, 4096),
                      counts_ = offer_memory(table_, 4096);
};

// ---- What is accepted ----

struct KindOfCall {
  OperationKind kind;
  uint64_t sent, received;  // elements at the root
};

TEST_F(Validate, GivesTheCallThatWasSubmitted) {
  for (const KindOfCall& each : std::vector<KindOfCall>{{OperationKind::all_reduce, 10, 10},
                                                        {OperationKind::reduce, 10, 10},
                                                        {OperationKind::broadcast, 10, 10},
                                                        {OperationKind::all_gather, 10, 40},
                                                        {OperationKind::all_gather_v, 3, 10},
                                                        {OperationKind::reduce_scatter, 40, 10},
                                                        {OperationKind::reduce_scatter_v, 10, 3},
                                                        {OperationKind::all_to_all, 40, 40},
                                                        {OperationKind::all_to_all_v, 10, 22},
                                                        {OperationKind::gather, 10, 40},
                                                        {OperationKind::scatter, 40, 10},
                                                        {OperationKind::barrier, 0, 0},
                                                        {OperationKind::send, 10, 0},
                                                        {OperationKind::recv, 0, 10}}) {
    SCOPED_TRACE(to_string(each.kind));
    const ValidCall valid = accepted(good(each.kind));
    EXPECT_EQ(valid.call.kind, each.kind);
    EXPECT_EQ(valid.call.send, each.sent > 0 ? sent_.data + 96 : nullptr);
    EXPECT_EQ(valid.call.recv, each.received > 0 ? received_.data + 128 : nullptr);
    EXPECT_EQ(valid.call.send_elements(kRank, kRanks), each.sent);
    EXPECT_EQ(valid.call.recv_elements(kRank, kRanks), each.received);
    EXPECT_EQ(valid.bytes, 4 * (each.sent + each.received));
  }
}

TEST_F(Validate, TakesTypeOpRootPeerAndTag) {
  Submission submission = good(OperationKind::reduce);
  submission.type = static_cast<uint8_t>(DataType::uint16);
  submission.op = static_cast<uint8_t>(ReduceOp::bxor);
  submission.other = 3;
  const run::Call reduce = accepted(submission).call;
  EXPECT_EQ(reduce.type, DataType::uint16);
  EXPECT_EQ(reduce.op, ReduceOp::bxor);
  EXPECT_EQ(reduce.other, 3u);

  submission = good(OperationKind::send);
  submission.tag = 77;
  const run::Call send = accepted(submission).call;
  EXPECT_EQ(send.other, 1u);
  EXPECT_EQ(send.tag, 77u);
}

TEST_F(Validate, TakesAReceiveFromAnyRank) {
  Submission submission = good(OperationKind::recv);
  submission.other = run::kAnyRank;
  EXPECT_EQ(accepted(submission).call.other, run::kAnyRank);
}

TEST_F(Validate, LeavesOutWhatTheKindDoesNotUse) {
  Submission submission = good(OperationKind::barrier);
  submission.count = UINT64_MAX;
  submission.other = 99;
  submission.tag = 5;
  submission.op = static_cast<uint8_t>(ReduceOp::band);
  submission.factor = NAN;
  submission.send = submission.recv = submission.counts = {.region = 5, .generation = 6, .offset = UINT64_MAX};
  const ValidCall valid = accepted(submission);
  EXPECT_EQ(valid.call.count, 0u);
  EXPECT_EQ(valid.call.tag, 0u);
  EXPECT_EQ(valid.call.op, ReduceOp::sum);
  EXPECT_EQ(valid.call.factor, 1);
}

TEST_F(Validate, NeedsNoBuffersWithoutElements) {
  for (const OperationKind kind : {OperationKind::all_reduce, OperationKind::all_to_all, OperationKind::send}) {
    Submission submission = good(kind);
    submission.count = 0;
    submission.send = submission.recv = {};
    const ValidCall valid = accepted(submission);
    EXPECT_EQ(valid.send, nullptr);
    EXPECT_EQ(valid.recv, nullptr);
  }
  Submission away = good(OperationKind::gather);  // only the root receives
  away.other = 0;
  away.recv = {};
  EXPECT_EQ(accepted(away).call.recv, nullptr);
}

TEST_F(Validate, KeepsTheRegionsOfACall) {
  ValidCall valid = accepted(good(OperationKind::all_reduce));
  table_.withdraw(sent_.place);
  table_.withdraw(received_.place);
  std::memset(valid.call.recv, 7, 40);
  EXPECT_EQ(valid.call.send[39], std::byte{0});
}

TEST_F(Validate, CutsTimeoutsThatAreTooLong) {
  rules_.longest_timeout = std::chrono::seconds(10);
  Submission submission = good(OperationKind::barrier);
  for (const auto& [asked, given] : std::vector<std::pair<uint32_t, int>>{
           {0, 0}, {1, 1}, {10'000, 10'000}, {10'001, 10'000}, {UINT32_MAX, 10'000}}) {
    submission.milliseconds = asked;
    EXPECT_EQ(accepted(submission).call.timeout, std::chrono::milliseconds(given)) << asked;
  }
}

TEST_F(Validate, TakesFactorsOfPremultipliedSums) {
  Submission submission = good(OperationKind::all_reduce);
  submission.op = static_cast<uint8_t>(ReduceOp::premul_sum);
  submission.factor = 0.37;
  EXPECT_EQ(accepted(submission).call.factor, 0.37);
  submission.type = static_cast<uint8_t>(DataType::int32);
  for (const double factor : {-3.0, 0.0, 9007199254740992.0}) {
    submission.factor = factor;
    EXPECT_EQ(accepted(submission).call.factor, factor);
  }
}

// ---- What is refused ----

struct Wrong {
  std::function<void(Submission&)> make;
  std::string refusal;
};

TEST_F(Validate, RefusesWhatNoClientOfThisVersionWrites) {
  for (const Wrong& wrong : std::vector<Wrong>{
           {[](Submission& s) { s.version = 0; }, "version: version 0 of the protocol, where 2 is spoken"},
           {[](Submission& s) { s.version = 1; }, "version: version 1 of the protocol"},
           {[](Submission& s) { s.flags = 2; }, "version: flags 2, of which not all are known"},
           {[](Submission& s) { s.flags = 1u << 31 | 1; }, "version: flags 2147483649"},
           {[](Submission& s) { s.zero = 1; }, "version: bytes that have to be zero are not"},
           {[](Submission& s) { s.zeros[0] = 1; }, "version: bytes that have to be zero are not"},
           {[](Submission& s) { s.zeros[31] = 1; }, "version: bytes that have to be zero are not"},
           {[](Submission& s) { s.sequence = 8; }, "sequence: submission 8, where 9 is the next"},
           {[](Submission& s) { s.sequence = 10; }, "sequence: submission 10, where 9 is the next"},
           {[](Submission& s) { s.sequence = 0; }, "sequence: submission 0, where 9 is the next"},
           {[](Submission& s) { s.kind = 14; }, "kind: call 14 does not exist"},
           {[](Submission& s) { s.kind = 17; }, "kind: call 17 does not exist"},
           {[](Submission& s) { s.kind = 255; }, "kind: call 255 does not exist"},
           {[](Submission& s) { s.type = 12; }, "kind: type 12 does not exist"},
           {[](Submission& s) { s.op = 9; }, "kind: op 9 does not exist"}}) {
    Submission submission = good(OperationKind::all_reduce);
    wrong.make(submission);
    EXPECT_THAT(refused(submission), HasSubstr(wrong.refusal));
  }
}

TEST_F(Validate, RefusesOperatorsAndFactorsThatDoNotFitTheType) {
  const auto premul = [](Submission& s, DataType type, double factor) {
    s.op = static_cast<uint8_t>(ReduceOp::premul_sum);
    s.type = static_cast<uint8_t>(type);
    s.factor = factor;
  };
  for (const Wrong& wrong : std::vector<Wrong>{
           {[](Submission& s) { s.op = static_cast<uint8_t>(ReduceOp::band); }, "numbers: band is for integers"},
           {[](Submission& s) { s.op = static_cast<uint8_t>(ReduceOp::bxor); }, "numbers: bxor is for integers"},
           {[&](Submission& s) { premul(s, DataType::float32, NAN); }, "numbers: allreduce: a factor of nan"},
           {[&](Submission& s) { premul(s, DataType::float64, INFINITY); }, "numbers: allreduce: a factor of inf"},
           {[&](Submission& s) { premul(s, DataType::int8, NAN); }, "numbers: allreduce: a factor of nan"},
           {[&](Submission& s) { premul(s, DataType::int8, 0.5); }, "that of int8 is a whole number of at most 2^53"},
           {[&](Submission& s) { premul(s, DataType::int64, 9007199254740994.0); }, "whole number of at most 2^53"},
           {[&](Submission& s) { premul(s, DataType::uint8, -1e300); }, "whole number of at most 2^53"}}) {
    Submission submission = good(OperationKind::all_reduce);
    wrong.make(submission);
    EXPECT_THAT(refused(submission), HasSubstr(wrong.refusal));
  }
}

TEST_F(Validate, RefusesRanksThatDoNotExist) {
  for (const OperationKind kind : {OperationKind::reduce, OperationKind::broadcast, OperationKind::gather,
                                   OperationKind::scatter, OperationKind::send, OperationKind::recv}) {
    Submission submission = good(kind);
    submission.other = kRanks;
    EXPECT_EQ(refused(submission), "numbers: " + std::string(to_string(kind)) + ": rank 4 does not exist; there are 4");
    submission.other = run::kAnyRank;
    EXPECT_EQ(refused(submission) == "accepted", kind == OperationKind::recv);
  }
}

TEST_F(Validate, RefusesCountsBeyondMemory) {
  for (const OperationKind kind : {OperationKind::all_reduce, OperationKind::all_gather, OperationKind::all_to_all,
                                   OperationKind::scatter, OperationKind::send}) {
    // Some of them would be small again after an overflow.
    for (const uint64_t count : {UINT64_MAX, uint64_t{1} << 62, (uint64_t{1} << 62) + 1, (uint64_t{1} << 60) + 1,
                                 UINT64_MAX / 16 / kRanks + 1}) {
      Submission submission = good(kind);
      submission.count = count;
      EXPECT_THAT(refused(submission), HasSubstr("a count of " + std::to_string(count) + " is beyond memory"));
    }
  }
}

TEST_F(Validate, RefusesMoreBytesThanTheLimit) {
  rules_.most_bytes = 160;
  EXPECT_EQ(accepted(good(OperationKind::all_gather)).bytes, 200u) << "the limit is of each buffer";
  rules_.most_bytes = 159;
  EXPECT_EQ(refused(good(OperationKind::all_gather)),
            "limit: allgather: 40 float32 are more than the 159 bytes that recv may have");
  EXPECT_THAT(refused(good(OperationKind::all_to_all)), HasSubstr("that send may have"));
}

TEST_F(Validate, RefusesBuffersThatAreNotInTheirRegion) {
  const auto fits = [&](uint64_t offset, uint64_t count) {
    Submission submission = good(OperationKind::send);
    submission.send.offset = offset;
    submission.count = count;
    return refused(submission);
  };
  EXPECT_EQ(fits(0, 1024), "accepted");
  EXPECT_EQ(fits(4092, 1), "accepted");
  EXPECT_EQ(fits(4096, 0), "accepted");
  EXPECT_EQ(fits(4093, 1),
            "buffer: send: send is in region 0 of generation 0, which has 4096 bytes, not 4 from 4093 on");
  EXPECT_THAT(fits(0, 1025), HasSubstr("not 4100 from 0 on"));
  EXPECT_THAT(fits(4096, 1), HasSubstr("not 4 from 4096 on"));
  EXPECT_THAT(fits(UINT64_MAX, 1), HasSubstr("not 4 from 18446744073709551615 on"));
  EXPECT_THAT(fits(UINT64_MAX - 3, 1), HasSubstr("buffer: "));
  EXPECT_THAT(fits(uint64_t{0} - 2048, 1024), HasSubstr("buffer: "));
}

TEST_F(Validate, RefusesRegionsThatAreNotOffered) {
  Submission submission = good(OperationKind::all_reduce);
  submission.recv.region = 3;
  EXPECT_EQ(refused(submission), "buffer: allreduce: recv is in region 3 of generation 0, which is not offered");
  submission = good(OperationKind::all_reduce);
  submission.send.generation = 1;
  EXPECT_EQ(refused(submission), "buffer: allreduce: send is in region 0 of generation 1, which is not offered");
  submission = good(OperationKind::all_reduce);
  submission.send = {};
  EXPECT_EQ(refused(submission), "buffer: allreduce: the send buffer is missing");
  submission = good(OperationKind::all_reduce);
  table_.withdraw(received_.place);
  offer_memory(table_, 4096);
  EXPECT_EQ(refused(submission), "buffer: allreduce: recv is in region 1 of generation 0, which is not offered");
}

// ---- Lists of counts ----

TEST_F(Validate, CopiesTheListsOfTheKind) {
  const ValidCall gather = accepted(with_displacements(OperationKind::all_gather_v, {1, 2, 3, 4, 9, 5, 0, 20}));
  EXPECT_THAT(gather.call.send_counts, IsEmpty());
  EXPECT_THAT(gather.call.recv_counts, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(gather.call.recv_displacements, ElementsAre(9, 5, 0, 20));
  const ValidCall scatter = accepted(good(OperationKind::reduce_scatter_v));
  EXPECT_THAT(scatter.call.send_counts, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(scatter.call.recv_counts, IsEmpty());
  const ValidCall shuffle = accepted(
      with_displacements(OperationKind::all_to_all_v, {1, 2, 3, 4, 40, 41, 42, 43, 5, 6, 3, 8, 50, 51, 52, 53}));
  EXPECT_THAT(shuffle.call.send_counts, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(shuffle.call.send_displacements, ElementsAre(40, 41, 42, 43));
  EXPECT_THAT(shuffle.call.recv_counts, ElementsAre(5, 6, 3, 8));
  EXPECT_THAT(shuffle.call.recv_displacements, ElementsAre(50, 51, 52, 53));
}

TEST_F(Validate, DoesNotLookAtTheListsOfTheClientAgain) {
  ValidCall valid = accepted(good(OperationKind::all_gather_v));
  write_counts({5000, 5000, 5000, 5000});
  const ValidCall moved = std::move(valid);
  EXPECT_THAT(moved.call.recv_counts, ElementsAre(1, 2, 3, 4));
}

TEST_F(Validate, TakesListsThatEndWhereTheirRegionEnds) {
  Submission submission = good(OperationKind::all_gather_v);
  submission.counts.offset = 4096 - 32;
  EXPECT_EQ(accepted(submission).bytes, 0u) << "they are zeros";
  for (const uint64_t offset : {4096 - 24, 4096, 8192}) {
    submission.counts.offset = offset;
    EXPECT_EQ(refused(submission), "buffer: allgatherv: the counts, 32 bytes from " + std::to_string(offset) +
                                       " on, are not in region 2 of generation 0");
  }
  submission.counts.offset = UINT64_MAX - 7;
  EXPECT_THAT(refused(submission), HasSubstr("are not in region 2"));
  submission.counts = {};
  EXPECT_THAT(refused(submission), HasSubstr("the counts, 32 bytes from 0 on, are not in region"));
}

TEST_F(Validate, RefusesListsThatAreNotAligned) {
  Submission submission = good(OperationKind::all_gather_v);
  submission.counts.offset = 12;
  EXPECT_EQ(refused(submission), "buffer: allgatherv: the counts begin at 12, which is no multiple of 8");
}

TEST_F(Validate, RefusesDisplacementsOfKindsThatHaveNone) {
  // Whoever carries it out takes the blocks one after the other, and would read beyond what these displacements need.
  EXPECT_EQ(refused(with_displacements(OperationKind::reduce_scatter_v, {1, 2, 3, 4, 0, 0, 0, 0})),
            "numbers: reduce-scatterv: takes no displacements, but its flags say that it has some");
  EXPECT_THAT(refused(with_displacements(OperationKind::all_reduce, {})), HasSubstr("takes no displacements"));
}

TEST_F(Validate, RefusesListsWhoseNumbersAreTooLarge) {
  const uint64_t most = UINT64_MAX / 16 / kRanks;
  const auto with_counts = [&](const std::vector<uint64_t>& lists) {
    Submission submission = good(OperationKind::all_gather_v);
    write_counts(lists);
    return refused(submission);
  };
  EXPECT_THAT(with_counts({UINT64_MAX, 1, 1, 1}), HasSubstr("numbers: allgatherv: a count of"));
  EXPECT_THAT(with_counts({most + 1, 0, 0, 0}), HasSubstr("numbers: allgatherv: a count of"));
  EXPECT_THAT(with_counts({most, most, most, most}), HasSubstr("limit: allgatherv"));
  EXPECT_THAT(with_counts({1024, 0, 0, 0}), HasSubstr("not 4096 from 128 on"));
  EXPECT_EQ(with_counts({992, 0, 0, 0}), "accepted");
  const auto displaced = [&](const std::vector<uint64_t>& lists) {
    return refused(with_displacements(OperationKind::all_gather_v, lists));
  };
  EXPECT_THAT(displaced({1, 1, 1, 1, 0, 1, 2, UINT64_MAX}), HasSubstr("a displacement of"));
  EXPECT_THAT(displaced({1, 1, 1, 1, 0, 1, 2, most}), HasSubstr("limit: "));
  EXPECT_THAT(displaced({1, 1, 1, 1, 0, 1, 2, 992}), HasSubstr("not 3972 from 128 on"));
  EXPECT_EQ(displaced({1, 1, 1, 1, 0, 1, 2, 991}), "accepted");
}

TEST_F(Validate, RefusesUnequalCountsOfARankWithItself) {
  Submission submission = good(OperationKind::all_to_all_v);
  write_counts({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(refused(submission),
              HasSubstr("numbers: all-to-allv: rank 2 sends 3 elements to itself, but receives 7"));
}

TEST_F(Validate, PutsPiecesOfNothingAtTheBeginning) {
  const ValidCall valid = accepted(with_displacements(OperationKind::all_gather_v, {1, 0, 1, 0, 3, 1 << 20, 4, 5}));
  EXPECT_THAT(valid.call.recv_displacements, ElementsAre(3, 0, 4, 0));
}

// The numbers that are looked at are those that the call has, whenever the client writes others.
TEST_F(Validate, IsNotDeceivedByListsThatChange) {
  const Submission submission = good(OperationKind::all_gather_v);
  std::atomic<bool> is_over{false};
  std::thread client([&] {
    const std::atomic_ref number(*reinterpret_cast<uint64_t*>(counts_.data + 8));
    while (!is_over) {
      for (const uint64_t value : {uint64_t{5}, uint64_t{1} << 40, uint64_t{900}, UINT64_MAX}) number.store(value);
    }
  });
  int accepted_calls = 0, refused_calls = 0;
  std::string fault;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while ((accepted_calls < 1000 || refused_calls < 1000) && std::chrono::steady_clock::now() < end) {
    const std::variant<ValidCall, Refusal> answer = validate(submission, rules_, table_);
    const ValidCall* const valid = std::get_if<ValidCall>(&answer);
    ++(valid != nullptr ? accepted_calls : refused_calls);
    if (valid != nullptr) fault += fault_of(*valid, rules_, all());
  }
  is_over = true;
  client.join();
  EXPECT_EQ(fault, "");
  EXPECT_GT(accepted_calls, 0);
  EXPECT_GT(refused_calls, 0);
}

// ---- Overlaps ----

TEST_F(Validate, TakesCallsInPlace) {
  const auto at = [&](uint64_t send, uint64_t recv) {
    return [=, this](Submission& s) {
      s.send = sent_.at(send);
      s.recv = sent_.at(recv);
    };
  };
  for (const auto& [kind, place] : std::vector<std::pair<OperationKind, std::function<void(Submission&)>>>{
           {OperationKind::all_reduce, at(40, 40)},
           {OperationKind::reduce, at(40, 40)},
           {OperationKind::broadcast, at(40, 40)},
           {OperationKind::all_to_all, at(40, 40)},
           {OperationKind::all_gather, at(40 + kRank * 40, 40)},
           {OperationKind::gather, at(40 + kRank * 40, 40)},
           {OperationKind::all_gather_v, at(40 + (1 + 2) * 4, 40)},
           {OperationKind::reduce_scatter, at(40, 40 + kRank * 40)},
           {OperationKind::scatter, at(40, 40 + kRank * 40)},
           {OperationKind::reduce_scatter_v, at(40, 40 + (1 + 2) * 4)}}) {
    Submission submission = good(kind);
    place(submission);
    EXPECT_EQ(refused(submission), "accepted") << to_string(kind);
    submission.send.offset += 4;
    EXPECT_THAT(refused(submission), HasSubstr("overlap: " + std::string(to_string(kind)) + ": send ("));
    submission.send.offset -= 8;
    EXPECT_THAT(refused(submission), HasSubstr("is not where it has to be for a call in place"));
  }
}

TEST_F(Validate, TakesListsInPlaceAtTheDisplacementOfTheRank) {
  Submission submission = with_displacements(OperationKind::all_gather_v, {1, 2, 3, 4, 30, 20, 10, 0});
  submission.send = submission.recv = sent_.at(100);
  submission.send.offset += 4 * 10;
  EXPECT_EQ(refused(submission), "accepted");
  submission.send.offset -= 4 * 7;  // where it would be without displacements
  EXPECT_THAT(refused(submission), HasSubstr("overlap: "));
}

TEST_F(Validate, TakesAnAllToAllVInPlaceOfEqualSizes) {
  Submission submission = good(OperationKind::all_to_all_v);
  submission.send = submission.recv = sent_.at(40);
  write_counts({1, 2, 3, 4, 4, 2, 3, 1});
  EXPECT_EQ(refused(submission), "accepted");
  write_counts({1, 2, 3, 4, 4, 2, 3, 2});
  EXPECT_EQ(refused(submission),
            "overlap: all-to-allv: send (40 bytes from 40 on of region 0) overlaps recv (44 bytes from 40 on of region "
            "0) and is not where it has to be for a call in place");
}

TEST_F(Validate, TakesBuffersThatTouchAndDoNotOverlap) {
  Submission submission = good(OperationKind::all_reduce);
  submission.send = sent_.at(80);
  for (const auto& [offset, is_good] :
       std::vector<std::pair<uint64_t, bool>>{{40, true}, {41, false}, {119, false}, {120, true}}) {
    submission.recv = sent_.at(offset);
    EXPECT_EQ(refused(submission) == "accepted", is_good) << offset;
  }
}

TEST_F(Validate, TakesPiecesThatLieBetweenEachOther) {
  // Sent are elements 0, 2, 4 and 6 of a buffer, received 1, 3, 5 and 7.
  const std::vector<uint64_t> between = {1, 1, 1, 1, 6, 4, 2, 0, 1, 1, 1, 1, 3, 5, 7, 1};
  Submission submission = with_displacements(OperationKind::all_to_all_v, between);
  submission.send = submission.recv = sent_.at(0);
  EXPECT_EQ(refused(submission), "accepted");
  std::vector<uint64_t> over = between;
  over[8 + 1] = 2;  // 5 and 6
  write_counts(over);
  EXPECT_THAT(refused(submission), HasSubstr("overlap: "));
}

TEST_F(Validate, TakesOneBufferOfARankThatIsNoRoot) {
  Submission submission = good(OperationKind::broadcast);
  submission.send = submission.recv = sent_.at(7);
  submission.send.offset = 9;
  EXPECT_THAT(refused(submission), HasSubstr("overlap: "));
  submission.other = 0;
  EXPECT_EQ(accepted(submission).call.send, nullptr);
}

// ---- Anything ----

// Numbers of which some are good, some are near the edge of what is, and some are far away.
class SubmissionSource {
 public:
  SubmissionSource(uint64_t seed, std::span<const OfferedMemory> regions) : random_(seed), regions_(regions) {}

  SessionRules rules() {
    SessionRules rules{.size = static_cast<uint32_t>(1 + below(6)), .next_sequence = 1 + below(3)};
    rules.rank = static_cast<uint32_t>(below(rules.size));
    if (one_in(4)) rules.most_bytes = below(600);
    return rules;
  }

  Submission submission(const SessionRules& rules) {
    Submission submission;
    submission.kind = small(one_in(50) ? 256 : 14);
    submission.type = small(one_in(50) ? 256 : 12);
    submission.op = small(one_in(3) ? 10 : 5);
    submission.sequence = one_in(50) ? below(5) : rules.next_sequence;
    submission.count = number(50);
    submission.flags = static_cast<uint32_t>(one_in(50) ? random_() : one_in(2));
    if (one_in(50)) submission.zeros[below(32)] = small(256);
    if (one_in(50)) submission.version = small(256);
    submission.send = name();
    submission.recv = one_in(2) ? submission.send : name();
    if (one_in(2)) submission.recv.offset += 8 * below(12) - 40;
    submission.counts = regions_[0].at(one_in(20) ? number(5000) : 8 * below(8));
    submission.other = one_in(20) ? UINT32_MAX : static_cast<uint32_t>(below(rules.size + (one_in(20) ? 1 : 0)));
    submission.milliseconds = static_cast<uint32_t>(random_());
    submission.factor = one_in(3) ? 0.5 : one_in(10) ? NAN : static_cast<double>(below(9));
    return submission;
  }

  uint64_t number(uint64_t usual) {
    if (!one_in(40)) return below(usual);
    const uint64_t edges[] = {0, 4096, uint64_t{1} << 28, uint64_t{1} << 32, UINT64_MAX / 16, UINT64_MAX / 8, 0};
    return edges[below(std::size(edges))] + below(9) / 2 - 2;
  }
  bool one_in(uint64_t n) { return below(n) == 0; }

 private:
  uint64_t below(uint64_t end) { return random_() % end; }
  uint8_t small(uint64_t end) { return static_cast<uint8_t>(below(end)); }
  BufferName name() {
    BufferName name = regions_[below(regions_.size())].at(one_in(10) ? number(5000) : 8 * below(40));
    if (one_in(50)) name.region = static_cast<uint32_t>(random_());
    if (one_in(50)) name.generation ^= 1;
    return name;
  }

  std::mt19937_64 random_;
  const std::span<const OfferedMemory> regions_;
};

TEST_F(Validate, AgreesWithAModelAboutAnySubmission) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const std::vector<OfferedMemory> regions = {counts_, sent_, offer_memory(table_, 333)};
  SubmissionSource source(seed, regions);
  int accepted_calls = 0;
  constexpr int kRounds = 100'000;
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < 32; ++i) {
      const uint64_t number = source.number(i % 2 == 0 ? 6 : 20);
      std::memcpy(counts_.data + 8 * i, &number, 8);
    }
    const SessionRules rules = source.rules();
    const Submission submission = source.submission(rules);
    ASSERT_EQ(disagreement(submission, rules, table_, regions), "")
        << "round " << round << ", kind " << int{submission.kind} << ", rank " << rules.rank << " of " << rules.size;
    accepted_calls += std::holds_alternative<ValidCall>(validate(submission, rules, table_)) ? 1 : 0;
  }
  EXPECT_GT(accepted_calls, kRounds / 20) << "hardly anything good was tried";
}

}  // namespace
}  // namespace banyan::service
