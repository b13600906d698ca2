#include "banyan/service/client/staging.h"

#include <sys/mman.h>

#include "banyan/service/client/test_fake_daemon.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using run::Call;
using run::OperationKind;
using Bytes8 = std::vector<uint8_t>;
using DaemonState = FakeDaemon::State;

constexpr uint32_t kRanks = 3;

// What byte `i` of a buffer holds before a call, and what the daemon writes there.
uint8_t sent_byte(size_t i) { return static_cast<uint8_t>(i * 31 + i / 256 + 1); }
uint8_t come_byte(size_t i) { return static_cast<uint8_t>(i * 17 + i / 256 + 99); }
constexpr uint8_t kUntouched = 0x55;

// The elements of a buffer that a call means, as include/banyan/banyan.h tells; empty where the rank has none.
struct Meant {
  std::vector<bool> send, recv;
};

std::vector<bool> all(size_t count) { return std::vector<bool>(count, true); }

std::vector<bool> pieces(const std::vector<size_t>& counts, const std::vector<size_t>& displacements) {
  std::vector<bool> meant;
  size_t next = 0;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    const size_t begin = displacements.empty() ? next : displacements[rank];
    for (size_t i = begin; i < begin + counts[rank]; ++i) {
      if (meant.size() <= i) meant.resize(i + 1);
      meant[i] = true;
    }
    next = begin + counts[rank];
  }
  return meant;
}

Meant meant_by(const Call& call, uint32_t rank) {
  const bool is_root = call.other == rank;
  const size_t n = call.count;
  switch (call.kind) {
    case OperationKind::all_reduce:
      return {all(n), all(n)};
    case OperationKind::reduce:
      return {all(n), is_root ? all(n) : all(0)};
    case OperationKind::broadcast:
      return {is_root ? all(n) : all(0), all(n)};
    case OperationKind::all_gather:
      return {all(n), all(n * kRanks)};
    case OperationKind::reduce_scatter:
      return {all(n * kRanks), all(n)};
    case OperationKind::all_to_all:
      return {all(n * kRanks), all(n * kRanks)};
    case OperationKind::gather:
      return {all(n), is_root ? all(n * kRanks) : all(0)};
    case OperationKind::scatter:
      return {is_root ? all(n * kRanks) : all(0), all(n)};
    case OperationKind::send:
      return {all(n), {}};
    case OperationKind::recv:
      return {{}, all(n)};
    default:
      return {};
  }
}

class Stagings : public ::testing::Test {
 protected:
  // The bytes of a name, as the daemon sees them.
  Bytes8 seen_at(const BufferName& name, size_t bytes) {
    return daemon_.look([&](DaemonState& state) {
      const auto* const begin = reinterpret_cast<const uint8_t*>(state.client().at(name, bytes));
      return Bytes8(begin, begin + bytes);
    });
  }
  void write_at(const BufferName& name, size_t bytes) {
    daemon_.look([&](DaemonState& state) {
      auto* const begin = reinterpret_cast<uint8_t*>(state.client().at(name, bytes));
      for (size_t i = 0; i < bytes; ++i) begin[i] = come_byte(i);
    });
  }
  size_t offers() {
    return daemon_.look([](DaemonState& state) { return state.count<OfferRegion>(); });
  }

  // Stages the call, with buffers in ordinary memory, and lets the daemon write wherever it may; compares what it saw
  // and what has come with what the call means.
  void expect_staged(Call call, uint32_t rank, const Meant& meant) {
    SCOPED_TRACE(std::string(to_string(call.kind)) + " at rank " + std::to_string(rank));
    Staging staging(*attachment_, rank, kRanks);
    const size_t unit = size_of(call.type), room = 7 * unit;
    std::vector<uint8_t> send(meant.send.size() * unit + room), recv(meant.recv.size() * unit + room, kUntouched);
    for (size_t i = 0; i < send.size(); ++i) send[i] = sent_byte(i);
    const Bytes8 send_before = send;
    call.send = reinterpret_cast<const std::byte*>(send.data());
    call.recv = reinterpret_cast<std::byte*>(recv.data());

    Staging::Staged staged = staging.stage(call);
    EXPECT_EQ(staged.submission.send.region == BufferName::kNone, meant.send.empty());
    EXPECT_EQ(staged.submission.recv.region == BufferName::kNone, meant.recv.empty());
    if (!meant.send.empty()) {
      const Bytes8 seen = seen_at(staged.submission.send, meant.send.size() * unit);
      for (size_t i = 0; i < seen.size(); ++i) {
        if (!meant.send[i / unit]) continue;
        ASSERT_EQ(seen[i], sent_byte(i)) << "byte " << i << " of the send buffer";
      }
    }
    if (!meant.recv.empty()) write_at(staged.submission.recv, meant.recv.size() * unit);
    EXPECT_EQ(recv, Bytes8(recv.size(), kUntouched)) << "before the call is over";
    staging.finish(std::move(staged.call), true);
    for (size_t i = 0; i < recv.size(); ++i) {
      const bool has_come = i / unit < meant.recv.size() && meant.recv[i / unit];
      ASSERT_EQ(recv[i], has_come ? come_byte(i) : kUntouched) << "byte " << i << " of the recv buffer";
    }
    EXPECT_EQ(send, send_before);
  }

  FakeDaemon daemon_;
  run::RegionPool pool_;
  const std::shared_ptr<Attachment> attachment_ =
      Attachment::to(daemon_.url(), pool_, run::Deadline::after(std::chrono::seconds(60)));
};

// ---- Calls in place ----

// In memory that the daemon has, where it could write over what is sent.
TEST_F(Stagings, KeepInputsInPlaceUntilTheCallIsDone) {
  constexpr size_t kCount = 3000, kAll = kCount * kRanks;
  auto* const memory = reinterpret_cast<uint8_t*>(pool_.allocate(kAll));
  for (const OperationKind kind :
       {OperationKind::all_reduce, OperationKind::reduce, OperationKind::all_to_all, OperationKind::reduce_scatter}) {
    for (const bool is_done : {false, true}) {
      SCOPED_TRACE(std::string(to_string(kind)) + (is_done ? ", done" : ", not done"));
      Staging staging(*attachment_, 1, kRanks);
      for (size_t i = 0; i < kAll; ++i) memory[i] = sent_byte(i);
      const size_t begin = kind == OperationKind::reduce_scatter ? kCount : 0;
      Call call{.kind = kind, .type = element::DataType::uint8, .other = 1, .count = kCount};
      call.send = reinterpret_cast<const std::byte*>(memory);
      call.recv = reinterpret_cast<std::byte*>(memory + begin);
      const Meant meant = meant_by(call, 1);
      Staging::Staged staged = staging.stage(call);
      const Bytes8 seen = seen_at(staged.submission.send, meant.send.size());
      EXPECT_EQ(seen, Bytes8(memory, memory + meant.send.size())) << "what is sent is where it was";
      write_at(staged.submission.recv, meant.recv.size());
      for (size_t i = 0; i < kAll; ++i) ASSERT_EQ(memory[i], sent_byte(i)) << "byte " << i << " during the call";
      staging.finish(std::move(staged.call), is_done);
      for (size_t i = 0; i < kAll; ++i) {
        const bool has_come = is_done && i >= begin && i < begin + meant.recv.size();
        ASSERT_EQ(memory[i], has_come ? come_byte(i - begin) : sent_byte(i)) << "byte " << i << " after the call";
      }
    }
  }
}

TEST_F(Stagings, CopyNothingWhereAPartStaysInItsPlace) {
  constexpr size_t kCount = 3000;
  auto* const memory = pool_.allocate(kCount * kRanks);
  Staging staging(*attachment_, 1, kRanks);
  for (const OperationKind kind : {OperationKind::all_gather, OperationKind::broadcast}) {
    Call call{.kind = kind, .type = element::DataType::uint8, .other = 1, .count = kCount};
    call.send = kind == OperationKind::all_gather ? memory + kCount : memory;
    call.recv = memory;
    Staging::Staged staged = staging.stage(call);
    EXPECT_TRUE(staged.call.blocks.empty()) << to_string(kind);
    staging.finish(std::move(staged.call), true);
  }
}

// ---- Calls whose buffers are elsewhere ----

TEST_F(Stagings, CopyWhatACallSendsAndWhatHasCome) {
  for (uint8_t kind = 0; kind <= static_cast<uint8_t>(OperationKind::recv); ++kind) {
    const Call call{
        .kind = static_cast<OperationKind>(kind), .type = element::DataType::int32, .other = 1, .count = 33};
    if (has_counts(call.kind)) continue;
    for (uint32_t rank = 0; rank < kRanks; ++rank) expect_staged(call, rank, meant_by(call, rank));
  }
}

TEST_F(Stagings, CopyLargeBuffers) {
  const Call call{.kind = OperationKind::all_gather, .type = element::DataType::uint8, .count = 300'001};
  expect_staged(call, 2, meant_by(call, 2));
}

TEST_F(Stagings, LeaveTheGapsOfAGatherAlone) {
  const std::vector<size_t> counts{4, 0, 7}, apart{20, 5000, 2}, packed;
  for (const std::vector<size_t>* const displacements : {&apart, &packed}) {
    const Call call{.kind = OperationKind::all_gather_v,
                    .type = element::DataType::int16,
                    .recv_counts = counts,
                    .recv_displacements = *displacements};
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      expect_staged(call, rank, {all(counts[rank]), pieces(counts, *displacements)});
    }
  }
}

TEST_F(Stagings, CopyThePiecesOfAReduceScatter) {
  const std::vector<size_t> counts{4, 0, 7};
  const Call call{.kind = OperationKind::reduce_scatter_v, .type = element::DataType::float64, .send_counts = counts};
  for (uint32_t rank = 0; rank < kRanks; ++rank) expect_staged(call, rank, {pieces(counts, {}), all(counts[rank])});
}

TEST_F(Stagings, CopyOnlyThePiecesOfAnExchange) {
  const std::vector<size_t> send_counts{2, 3, 1}, recv_counts{5, 3, 4};
  const std::vector<size_t> send_apart{10, 0, 4}, recv_apart{30, 9, 12}, packed;
  for (const auto* const send_displacements : {&send_apart, &packed}) {
    for (const auto* const recv_displacements : {&recv_apart, &packed}) {
      const Call call{.kind = OperationKind::all_to_all_v,
                      .type = element::DataType::uint64,
                      .send_counts = send_counts,
                      .send_displacements = *send_displacements,
                      .recv_counts = recv_counts,
                      .recv_displacements = *recv_displacements};
      expect_staged(call, 1, {pieces(send_counts, *send_displacements), pieces(recv_counts, *recv_displacements)});
    }
  }
}

// The memory in the gaps may not even be there.
TEST_F(Stagings, ReadNothingInTheGapsOfWhatIsSent) {
  constexpr size_t kPage = 4096;
  auto* const memory =
      static_cast<std::byte*>(mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(mprotect(memory + kPage, kPage, PROT_NONE), 0);
  memory[kPage - 1] = std::byte{1};
  memory[2 * kPage] = std::byte{2};
  const std::vector<size_t> counts{1, 0, 1}, displacements{kPage - 1, kPage, 2 * kPage};
  Staging staging(*attachment_, 0, kRanks);
  Staging::Staged staged = staging.stage({.kind = OperationKind::all_to_all_v,
                                          .send = memory,
                                          .recv = memory,
                                          .send_counts = counts,
                                          .send_displacements = displacements,
                                          .recv_counts = counts,
                                          .recv_displacements = displacements});
  const Bytes8 seen = seen_at(staged.submission.send, 2 * kPage + 1);
  EXPECT_EQ(seen[kPage - 1], 1);
  EXPECT_EQ(seen[2 * kPage], 2);
  write_at(staged.submission.recv, 2 * kPage + 1);
  staging.finish(std::move(staged.call), true);
  EXPECT_EQ(static_cast<uint8_t>(memory[kPage - 1]), come_byte(kPage - 1));
  EXPECT_EQ(static_cast<uint8_t>(memory[2 * kPage]), come_byte(2 * kPage));
  munmap(memory, 3 * kPage);
}

TEST_F(Stagings, StageACallInPlaceAsOneThatIsNot) {
  Staging staging(*attachment_, 0, kRanks);
  std::vector<uint8_t> buffer(1000);
  for (size_t i = 0; i < buffer.size(); ++i) buffer[i] = sent_byte(i);
  Staging::Staged staged = staging.stage({.kind = OperationKind::all_to_all,
                                          .send = reinterpret_cast<const std::byte*>(buffer.data()),
                                          .recv = reinterpret_cast<std::byte*>(buffer.data()),
                                          .count = 300});
  write_at(staged.submission.recv, 900);
  EXPECT_EQ(seen_at(staged.submission.send, 900), Bytes8(buffer.begin(), buffer.begin() + 900));
  staging.finish(std::move(staged.call), true);
  for (size_t i = 0; i < 900; ++i) ASSERT_EQ(buffer[i], come_byte(i));
  for (size_t i = 900; i < 1000; ++i) ASSERT_EQ(buffer[i], sent_byte(i));
}

TEST_F(Stagings, CopyNothingOfACallThatFailed) {
  Staging staging(*attachment_, 0, kRanks);
  Bytes8 recv(64, kUntouched);
  Staging::Staged staged = staging.stage(
      {.kind = OperationKind::recv, .other = 1, .recv = reinterpret_cast<std::byte*>(recv.data()), .count = 64});
  write_at(staged.submission.recv, 64);
  staging.finish(std::move(staged.call), false);
  EXPECT_EQ(recv, Bytes8(64, kUntouched));
}

// ---- Calls whose buffers the daemon sees ----

TEST_F(Stagings, NameWhatIsInThePool) {
  Staging staging(*attachment_, 1, kRanks);
  std::byte* const memory = pool_.allocate(4096);
  Staging::Staged staged = staging.stage({.kind = OperationKind::all_gather,
                                          .type = element::DataType::int16,
                                          .send = memory + 100,
                                          .recv = memory + 80,
                                          .count = 10});
  EXPECT_EQ(staging.held_bytes(), 0u);
  EXPECT_TRUE(staged.call.blocks.empty() && staged.call.copies.empty());
  EXPECT_EQ(staged.submission.send.offset, 100u);
  EXPECT_EQ(staged.submission.recv.offset, 80u);
  write_at(staged.submission.recv, 60);
  for (size_t i = 0; i < 60; ++i) ASSERT_EQ(static_cast<uint8_t>(memory[80 + i]), come_byte(i));
  staging.finish(std::move(staged.call), true);
  EXPECT_EQ(offers(), 1u);
}

TEST_F(Stagings, CopyOneBufferWhereOnlyTheOtherIsInThePool) {
  Staging staging(*attachment_, 1, kRanks);
  std::byte* const memory = pool_.allocate(4096);
  Bytes8 recv(64, kUntouched);
  Staging::Staged staged = staging.stage({.kind = OperationKind::all_reduce,
                                          .send = memory,
                                          .recv = reinterpret_cast<std::byte*>(recv.data()),
                                          .count = 64});
  EXPECT_EQ(staged.call.blocks.size(), 1u);
  write_at(staged.submission.recv, 64);
  staging.finish(std::move(staged.call), true);
  for (size_t i = 0; i < 64; ++i) ASSERT_EQ(recv[i], come_byte(i));
}

// ---- What the daemon reads of a call ----

TEST_F(Stagings, SayWhatTheCallIs) {
  Staging staging(*attachment_, 1, kRanks);
  const std::byte byte{};
  Submission submission = staging
                              .stage({.kind = OperationKind::reduce,
                                      .type = element::DataType::uint8,
                                      .op = element::ReduceOp::premul_sum,
                                      .factor = 3,
                                      .other = 2,
                                      .send = &byte,
                                      .count = 1,
                                      .tag = 9,
                                      .timeout = std::chrono::milliseconds(1234)})
                              .submission;
  EXPECT_EQ(submission.version, kProtocolVersion);
  EXPECT_EQ(submission.kind, static_cast<uint8_t>(OperationKind::reduce));
  EXPECT_EQ(submission.type, static_cast<uint8_t>(element::DataType::uint8));
  EXPECT_EQ(submission.op, static_cast<uint8_t>(element::ReduceOp::premul_sum));
  EXPECT_EQ(submission.factor, 3);
  EXPECT_EQ(submission.other, 2u);
  EXPECT_EQ(submission.count, 1u);
  EXPECT_EQ(submission.milliseconds, 1234u);
  EXPECT_EQ(submission.tag, 0u);  // of messages only
  EXPECT_EQ(submission.flags, 0u);
  EXPECT_EQ(submission.counts.region, BufferName::kNone);

  submission = staging
                   .stage({.kind = OperationKind::send,
                           .other = 2,
                           .send = &byte,
                           .count = 1,
                           .tag = 9,
                           .timeout = std::chrono::hours(24 * 365)})
                   .submission;
  EXPECT_EQ(submission.tag, 9u);
  EXPECT_EQ(submission.other, 2u);
  EXPECT_EQ(submission.milliseconds, UINT32_MAX);

  submission = staging.stage({.kind = OperationKind::barrier}).submission;
  for (const BufferName* const name : {&submission.send, &submission.recv, &submission.counts}) {
    EXPECT_EQ(name->region, BufferName::kNone);
  }
}

TEST_F(Stagings, NameNoBuffersWithoutElements) {
  Staging staging(*attachment_, 1, kRanks);
  const std::vector<size_t> none(kRanks);
  for (const Call& call : {Call{.kind = OperationKind::all_reduce, .count = 0},
                           Call{.kind = OperationKind::all_to_all_v, .send_counts = none, .recv_counts = none}}) {
    const Staging::Staged staged = staging.stage(call);
    EXPECT_EQ(staged.submission.send.region, BufferName::kNone);
    EXPECT_EQ(staged.submission.recv.region, BufferName::kNone);
    EXPECT_TRUE(staged.call.copies.empty());
  }
}

TEST_F(Stagings, ListCountsAndDisplacementsInOrder) {
  Staging staging(*attachment_, 0, kRanks);
  const std::vector<size_t> send_counts{1, 2, 3}, recv_counts{1, 5, 6}, apart{10, 20, 30}, far{40, 50, 60}, packed;
  Bytes8 send(100), recv(100);
  const auto lists_of = [&](OperationKind kind, const std::vector<size_t>& from, const std::vector<size_t>& to) {
    Call call{.kind = kind,
              .send = reinterpret_cast<const std::byte*>(send.data()),
              .recv = reinterpret_cast<std::byte*>(recv.data())};
    if (kind != OperationKind::all_gather_v) {
      call.send_counts = send_counts;
      call.send_displacements = from;
    }
    if (kind != OperationKind::reduce_scatter_v) {
      call.recv_counts = recv_counts;
      call.recv_displacements = to;
    }
    const Submission submission = staging.stage(call).submission;
    EXPECT_EQ(submission.counts.offset % sizeof(uint64_t), 0u);
    const size_t sides = kind == OperationKind::all_to_all_v ? 2 : 1;
    const size_t lists = sides * (submission.flags == 0 ? 1 : 2);
    const Bytes8 bytes = seen_at(submission.counts, lists * kRanks * sizeof(uint64_t));
    std::vector<uint64_t> numbers(lists * kRanks);
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
  };
  using Numbers = std::vector<uint64_t>;
  EXPECT_EQ(lists_of(OperationKind::all_gather_v, packed, packed), (Numbers{1, 5, 6}));
  EXPECT_EQ(lists_of(OperationKind::all_gather_v, packed, far), (Numbers{1, 5, 6, 40, 50, 60}));
  EXPECT_EQ(lists_of(OperationKind::reduce_scatter_v, packed, packed), (Numbers{1, 2, 3}));
  EXPECT_EQ(lists_of(OperationKind::all_to_all_v, packed, packed), (Numbers{1, 2, 3, 1, 5, 6}));
  EXPECT_EQ(lists_of(OperationKind::all_to_all_v, apart, far), (Numbers{1, 2, 3, 10, 20, 30, 1, 5, 6, 40, 50, 60}));
  EXPECT_EQ(lists_of(OperationKind::all_to_all_v, apart, packed), (Numbers{1, 2, 3, 10, 20, 30, 1, 5, 6, 0, 1, 6}));
  EXPECT_EQ(lists_of(OperationKind::all_to_all_v, packed, far), (Numbers{1, 2, 3, 0, 1, 3, 1, 5, 6, 40, 50, 60}));
}

// ---- Blocks ----

class StagedMessages : public Stagings {
 protected:
  Staging::Staged stage(Staging& staging, size_t bytes) {
    if (bytes_.size() < bytes) bytes_.resize(bytes);
    return staging.stage({.kind = OperationKind::send,
                          .other = 1,
                          .send = reinterpret_cast<const std::byte*>(bytes_.data()),
                          .count = bytes});
  }
  Bytes8 bytes_;
};

TEST_F(StagedMessages, UseBlocksAgain) {
  Staging staging(*attachment_, 0, kRanks);
  for (int i = 0; i < 100; ++i) {
    for (const size_t bytes : {1, 1000, 100'000, 300'000}) {
      Staging::Staged staged = stage(staging, bytes);
      staging.finish(std::move(staged.call), true);
    }
  }
  EXPECT_EQ(offers(), 3u);  // an arena, and two large ones
  EXPECT_EQ(staging.held_bytes(), 64u + 1024 + 131'072 + 524'288);
}

TEST_F(StagedMessages, HaveBlocksThatDoNotMeet) {
  Staging staging(*attachment_, 0, kRanks);
  std::vector<Staging::Staged> staged;
  size_t total = 0;
  for (size_t i = 0; i < 300; ++i) {
    staged.push_back(stage(staging, i * i % 40'000 + 1));
    total += i * i % 40'000 + 1;
  }
  std::vector<std::pair<const std::byte*, const std::byte*>> extents;
  for (const Staging::Staged& each : staged) {
    const StagedCall::Block& block = each.call.blocks.at(0);
    extents.emplace_back(block.memory.data, block.memory.data + block.bytes);
  }
  std::sort(extents.begin(), extents.end());
  for (size_t i = 1; i < extents.size(); ++i) ASSERT_GE(extents[i].first, extents[i - 1].second);
  for (Staging::Staged& each : staged) staging.finish(std::move(each.call), true);
  EXPECT_GE(staging.held_bytes(), total);
  EXPECT_LE(offers(), 2 * total / Staging::kLargestArena + 8);
}

TEST_F(StagedMessages, GiveBackWhatNoCallUses) {
  Staging staging(*attachment_, 0, kRanks);
  Staging::Staged large = stage(staging, 100'000), small = stage(staging, 100);
  staging.trim();
  EXPECT_EQ(staging.held_bytes(), 131'072u + 128);
  staging.finish(std::move(large.call), true);
  staging.trim();
  EXPECT_EQ(staging.held_bytes(), 128u);
  EXPECT_EQ(seen_at(small.submission.send, 100), Bytes8(bytes_.begin(), bytes_.begin() + 100));
  ASSERT_TRUE(daemon_.wait_until([](const DaemonState& state) { return state.count<WithdrawRegion>() == 1; }));
  staging.finish(std::move(small.call), true);
  staging.trim();
  EXPECT_EQ(staging.held_bytes(), 0u);
  ASSERT_TRUE(daemon_.wait_until([](const DaemonState& state) { return state.count<WithdrawRegion>() == 2; }));
}

TEST_F(StagedMessages, GiveBackWhatIsInTheWayOfMore) {
  Staging staging(*attachment_, 0, kRanks);
  staging.finish(stage(staging, 100'000).call, true);
  daemon_.look([](DaemonState& state) {
    state.refusal = [&state](const ClientMessage& message) -> std::optional<Error> {
      if (!std::holds_alternative<OfferRegion>(message) || state.count<WithdrawRegion>() > 0) return std::nullopt;
      return Error(ErrorCode::unsupported, "it has to withdraw some");
    };
  });
  const Staging::Staged staged = stage(staging, 1'000'000);
  EXPECT_EQ(staging.held_bytes(), size_t{1} << 20);
  EXPECT_EQ(seen_at(staged.submission.send, 1'000'000), bytes_);
}

TEST_F(StagedMessages, TakeNothingWhenThereIsNoMore) {
  Staging staging(*attachment_, 0, kRanks);
  bytes_.resize(100'000);
  stage(staging, 100);
  daemon_.look([](DaemonState& state) {
    state.refusal = [](const ClientMessage&) { return Error(ErrorCode::invalid_input, "no"); };
  });
  // The send buffer has its block of the first arena when there is none for the recv buffer.
  Bytes8 recv(100'000);
  EXPECT_EQ(testing::error_of([&] {
              staging.stage({.kind = OperationKind::all_gather,
                             .send = reinterpret_cast<const std::byte*>(bytes_.data()),
                             .recv = reinterpret_cast<std::byte*>(recv.data()),
                             .count = 8'000});
            }),
            "no");
  EXPECT_EQ(staging.held_bytes(), Staging::kFirstArena);
  stage(staging, 8'000);  // finds the block of the call that was not made
  EXPECT_EQ(staging.held_bytes(), Staging::kFirstArena);
}

}  // namespace
}  // namespace banyan::service
