// The names that NCCL, nccl-tests, PyTorch and MPI give to collectives.
#pragma once

#include <string>
#include <string_view>

namespace banyan::app {

// Our name for it: "allreduce" for all_reduce, AllReduce, all-reduce, ncclAllReduce, all_reduce_perf, MPI_Allreduce;
// likewise "reduce-scatter", "all-to-all" and the others. Any other text is returned as it is.
std::string collective_name(std::string_view text);

}  // namespace banyan::app
