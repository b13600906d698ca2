#include "banyan/run/communicator/operation.h"

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

std::shared_ptr<Operation> numbered(uint64_t number) {
  auto operation = std::make_shared<Operation>(Call{.kind = OperationKind::barrier}, nullptr);
  operation->ticket = number;
  return operation;
}

std::vector<uint64_t> numbers(const OperationList& list) {
  std::vector<uint64_t> found;
  list.for_each([&](const Operation& operation) { found.push_back(operation.ticket); });
  return found;
}

TEST(OperationList, KeepsTheOrderWhereverOneIsTakenOut) {
  for (const uint64_t taken : {1u, 2u, 3u}) {
    OperationList list;
    for (const uint64_t number : {1u, 2u, 3u}) list.push_back(numbered(number));
    EXPECT_EQ(list.take([&](const Operation& each) { return each.ticket == taken; })->ticket, taken);
    EXPECT_EQ(list.size(), 2u);
    list.push_back(numbered(4));
    std::vector<uint64_t> left = {1, 2, 3, 4};
    std::erase(left, taken);
    EXPECT_EQ(numbers(list), left);
    EXPECT_EQ(list.at(1).ticket, left[1]);
  }
}

TEST(OperationList, MovesAllOfAnother) {
  OperationList list, other;
  list.push_back(numbered(1));
  other.push_back(numbered(2));
  other.push_back(numbered(3));
  list.append(other);
  EXPECT_TRUE(other.empty());
  EXPECT_THAT(numbers(list), ElementsAre(1, 2, 3));
  EXPECT_EQ(list.pop_front()->ticket, 1u);
  EXPECT_FALSE(list.contains([](const Operation& each) { return each.ticket == 1; }));
  EXPECT_EQ(list.take([](const Operation& each) { return each.ticket == 1; }), nullptr);
}

TEST(OperationList, EndsWithoutAStackAsLongAsItself) {
  OperationList list;
  for (uint64_t number = 0; number < 1'000'000; ++number) list.push_back(numbered(number));
  list.clear();
  EXPECT_TRUE(list.empty());
}

}  // namespace
}  // namespace banyan::run
