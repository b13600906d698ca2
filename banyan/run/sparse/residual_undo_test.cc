#include "banyan/run/sparse/residual_undo.h"

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

constexpr uint32_t kOne[] = {1}, kBoth[] = {1, 2};

TEST(ResidualUndo, TakesAllBackUnlessItIsCommitted) {
  std::vector<float> residual = {0, 1, 2, 3, 4, 5};
  {
    ResidualUndo undo(residual, 2);
    EXPECT_EQ(undo.remember(kBoth), (std::vector<float>{2, 3, 4, 5}));
    undo.write(kBoth, std::vector<float>{7, 7, 7, 7});
    EXPECT_EQ(undo.remember(kOne), (std::vector<float>{7, 7}));
    undo.write(kOne, std::vector<float>{8, 8});
  }
  EXPECT_EQ(residual, (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST(ResidualUndo, TakesBackWhatIsNotFiniteInTheResult) {
  std::vector<float> residual = {0, 1, 2, 3, 4, 5};
  {
    ResidualUndo undo(residual, 2);
    undo.remember(kBoth);
    undo.write(kBoth, std::vector<float>{7, 7, 7, 7});
    undo.remember(kOne);
    undo.write(kOne, std::vector<float>{8, 8});
    undo.commit({.rows = {0, 1, 2}, .values = {NAN, NAN, 1, NAN, INFINITY, 1}});
  }
  EXPECT_EQ(residual, (std::vector<float>{0, 1, 8, 3, 4, 7}));
}

TEST(ResidualUndo, IsNothingWithoutAResidual) {
  ResidualUndo undo({}, 2);
  EXPECT_TRUE(undo.remember(kOne).empty());
  undo.write(kOne, {});
  undo.commit({.rows = {1}, .values = {NAN, 1}});
}

}  // namespace
}  // namespace banyan::run
