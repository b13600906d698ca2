// MPI as a contestant. One source for Open MPI and MPICH; the name in the first column is given by the build.
#include <mpi.h>

#include "bench/peers/measure.h"

namespace {

// Errors need no care: under MPI_ERRORS_ARE_FATAL, the default, MPI ends the job with its own message.
void run(void*, const peer_call_t* call) {
  const int count = static_cast<int>(call->count);
  switch (call->collective) {
    case PEER_ALLREDUCE:
      MPI_Allreduce(call->send, call->recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      break;
    case PEER_ALLGATHER:
      MPI_Allgather(call->send, count, MPI_FLOAT, call->recv, count, MPI_FLOAT, MPI_COMM_WORLD);
      break;
    case PEER_BROADCAST:
      MPI_Bcast(call->recv, count, MPI_FLOAT, call->root, MPI_COMM_WORLD);
      break;
    case PEER_ALLTOALL:
      MPI_Alltoall(call->send, count, MPI_FLOAT, call->recv, count, MPI_FLOAT, MPI_COMM_WORLD);
      break;
    case PEER_REDUCE_SCATTER:
      MPI_Reduce_scatter_block(call->send, call->recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      break;
    case PEER_REDUCE:
      MPI_Reduce(call->send, call->recv, count, MPI_FLOAT, MPI_SUM, call->root, MPI_COMM_WORLD);
      break;
    case PEER_GATHER:
      MPI_Gather(call->send, count, MPI_FLOAT, call->recv, count, MPI_FLOAT, call->root, MPI_COMM_WORLD);
      break;
    case PEER_SCATTER:
      MPI_Scatter(call->send, count, MPI_FLOAT, call->recv, count, MPI_FLOAT, call->root, MPI_COMM_WORLD);
      break;
    default:
      MPI_Barrier(MPI_COMM_WORLD);
  }
}

double max_over_ranks(void*, double value) {
  double result = 0;
  MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const peer_options_t options = peer_parse(argc, argv);
  const contestant_t contestant{.name = PEER_MPI_NAME,
                                .collectives = (1U << PEER_COLLECTIVES) - 1,
                                .in_place = 0,
                                .most_bytes = 0,
                                .allocate = peer_private_allocate,
                                .release = peer_private_release,
                                .prepare = nullptr,
                                .run = run};
  peer_job_t job{.library = nullptr,
                 .rank = 0,
                 .size = 0,
                 .max_over_ranks = max_over_ranks,
                 .contestants = &contestant,
                 .contestant_count = 1};
  MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &job.size);
  peer_measure(&options, &job);
  MPI_Finalize();
}
