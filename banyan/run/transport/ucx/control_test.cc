#include "banyan/run/transport/ucx/control.h"

#include "banyan/testing/test.h"

namespace banyan::run::ucx {
namespace {

Greeting greeting(size_t address_size = 100) {
  Greeting made{.lanes = 2, .your_rank = 7, .ticket = 0x123456789abcdef0, .address = {}};
  for (size_t i = 0; i < address_size; ++i) made.address.push_back(static_cast<std::byte>(i * 31));
  return made;
}

// Why a socket that brings this is not listened to any more.
std::string refusal(const std::vector<std::byte>& bytes, uint32_t lanes = 2) {
  ControlReader control(lanes, "rank 4");
  try {
    control.take(bytes);
  } catch (const Error& error) {
    EXPECT_FALSE(control.greeting()) << "half refused";
    return error.what();
  }
  return "none";
}

TEST(UcxControl, ArriveInWhateverPieces) {
  std::vector<std::byte> all = to_bytes(greeting());
  for (const auto& message : {farewell_to_bytes({5, UINT64_MAX}), receipt_to_bytes()}) {
    all.insert(all.end(), message.begin(), message.end());
  }
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{64}, all.size()}) {
    ControlReader control(2, "rank 4");
    for (size_t begin = 0; begin < all.size(); begin += piece) {
      EXPECT_FALSE(control.has_receipt());
      control.take(std::span(all).subspan(begin, std::min(piece, all.size() - begin)));
    }
    ASSERT_TRUE(control.greeting());
    EXPECT_EQ(control.greeting()->your_rank, 7u);
    EXPECT_EQ(control.greeting()->ticket, 0x123456789abcdef0u);
    EXPECT_EQ(control.greeting()->address, greeting().address);
    EXPECT_EQ(control.farewell(), (std::vector<uint64_t>{5, UINT64_MAX}));
    EXPECT_TRUE(control.has_receipt());
  }
}

TEST(UcxControl, RefuseAnAddressThatIsTooLongBeforeItIsRead) {
  EXPECT_THAT(refusal(to_bytes(greeting(Greeting::kMaxAddress))), "none");
  std::vector<std::byte> bytes = to_bytes(greeting(Greeting::kMaxAddress + 1));
  bytes.resize(64);
  EXPECT_THAT(refusal(bytes), HasSubstr("rank 4 sends a UCX address of 65537 bytes"));
  EXPECT_THAT(refusal(to_bytes(greeting(0))), HasSubstr("of 0 bytes"));
}

TEST(UcxControl, RefuseAnAddressThatIsDamaged) {
  std::vector<std::byte> bytes = to_bytes(greeting());
  bytes.back() ^= std::byte{1};
  EXPECT_THAT(refusal(bytes), HasSubstr("rank 4 sends a UCX address that is damaged"));
}

TEST(UcxControl, RefuseOtherVersionsAndOtherNumbersOfLanes) {
  std::vector<std::byte> bytes = to_bytes(greeting());
  EXPECT_THAT(refusal(bytes, 3), HasSubstr("rank 4 has 2 lanes per peer where 3 are used here"));
  bytes[36] = std::byte{1};
  EXPECT_THAT(refusal(bytes), HasSubstr("does not speak this version"));
  bytes = to_bytes(greeting());
  bytes[7] = std::byte{'2'};
  EXPECT_THAT(refusal(bytes), HasSubstr("does not speak this version"));
}

TEST(UcxControl, RefuseMoreThanThereIsToSay) {
  for (const auto& message : {farewell_to_bytes({1, 2}), receipt_to_bytes()}) {
    ControlReader control(2, "rank 4");
    control.take(to_bytes(greeting()));
    control.take(message);
    EXPECT_THROW(control.take(message), Error);
  }
  ControlReader control(2, "rank 4");
  control.take(to_bytes(greeting()));
  EXPECT_THROW(control.take(std::vector<std::byte>(8)), Error);
}

}  // namespace
}  // namespace banyan::run::ucx
