#include "banyan/element/isa.h"

#include "banyan/testing/test.h"

namespace banyan::element {
namespace {

TEST(Isa, IsTheBestUnlessALowerOneIsWishedFor) {
  const std::vector<Isa> available = available_isas();
  ASSERT_FALSE(available.empty());
  EXPECT_EQ(available.front(), Isa::portable);
  EXPECT_EQ(choose_isa(std::nullopt), available.back());
  EXPECT_EQ(choose_isa(""), available.back());
  for (const Isa isa : available) EXPECT_EQ(choose_isa(to_string(isa)), isa);
}

TEST(Isa, NamesTheKnownOnesWhenAskedForAnother) {
  try {
    choose_isa("avx-2");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    EXPECT_EQ(error.where(), "BANYAN_ISA");
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'avx-2'"), HasSubstr("did you mean 'avx2'"), HasSubstr("portable")));
  }
}

TEST(Isa, RefusesWhatTheMachineLacks) {
  const std::vector<Isa> available = available_isas();
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (std::find(available.begin(), available.end(), isa) != available.end()) continue;
    EXPECT_THAT(testing::error_of([&] { choose_isa(to_string(isa)); }, ErrorCode::unsupported), HasSubstr("portable"))
        << to_string(isa);
  }
}

TEST(Isa, StaysWhatItWasSetTo) {
  const Isa before = active_isa();
  for (const Isa isa : available_isas()) {
    use_isa(isa);
    EXPECT_EQ(active_isa(), isa);
  }
  use_isa(before);
}

}  // namespace
}  // namespace banyan::element
