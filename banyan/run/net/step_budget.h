// StepBudget: how many bytes a step of an executor may move, for who serves several executors by turns and changes his
// mind about how long they may be. One thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace banyan::run {

struct StepBudget {
  size_t bytes = SIZE_MAX;
};

}  // namespace banyan::run
