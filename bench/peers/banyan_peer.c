/* Banyan as a contestant, by its C interface alone. With --ranks N --meet FOLDER it starts N local ranks; without, the
 * launcher has, and the environment tells each who it is. */
#include <banyan/banyan.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/peers/measure.h"

static void check(banyan_result_t result, banyan_comm_t comm) {
  if (result != BANYAN_SUCCESS) peer_fail("banyan_peer", banyan_last_error(comm));
}

static float* allocate_registered(size_t bytes) {
  void* memory = NULL;
  check(banyan_mem_alloc(&memory, bytes), NULL);
  return memory;
}

static void release_registered(float* memory) { check(banyan_mem_free(memory), NULL); }

static banyan_result_t call_library(banyan_comm_t comm, const peer_call_t* call) {
  const float* send = call->send;
  float* recv = call->recv;
  const size_t count = call->count;
  switch (call->collective) {
    case PEER_ALLREDUCE:
      return banyan_all_reduce(send, recv, count, BANYAN_FLOAT32, BANYAN_SUM, comm, NULL);
    case PEER_ALLGATHER:
      return banyan_all_gather(send, recv, count, BANYAN_FLOAT32, comm, NULL);
    case PEER_BROADCAST:
      return banyan_broadcast(send, recv, count, BANYAN_FLOAT32, call->root, comm, NULL);
    case PEER_ALLTOALL:
      return banyan_all_to_all(send, recv, count, BANYAN_FLOAT32, comm, NULL);
    case PEER_REDUCE_SCATTER:
      return banyan_reduce_scatter(send, recv, count, BANYAN_FLOAT32, BANYAN_SUM, comm, NULL);
    case PEER_REDUCE:
      return banyan_reduce(send, recv, count, BANYAN_FLOAT32, BANYAN_SUM, call->root, comm, NULL);
    case PEER_GATHER:
      return banyan_gather(send, recv, count, BANYAN_FLOAT32, call->root, comm, NULL);
    case PEER_SCATTER:
      return banyan_scatter(send, recv, count, BANYAN_FLOAT32, call->root, comm, NULL);
    default:
      return banyan_barrier(comm, NULL);
  }
}

static void run(void* comm, const peer_call_t* call) { check(call_library(comm, call), comm); }

static double max_over_ranks(void* comm, double value) {
  double result = 0;
  check(banyan_all_reduce(&value, &result, 1, BANYAN_FLOAT64, BANYAN_MAX, comm, NULL), comm);
  return result;
}

static int measure(const peer_options_t* options, banyan_comm_t comm) {
  enum { ALL = (1u << PEER_COLLECTIVES) - 1, SIZED = ALL & ~(1u << PEER_BARRIER) };
  const contestant_t contestants[] = {
      {"banyan:ordinary", ALL, 0, 0, peer_private_allocate, peer_private_release, NULL, run},
      {"banyan:registered", SIZED, 0, 0, allocate_registered, release_registered, NULL, run},
      {"banyan:in-place", SIZED, 1, 0, peer_private_allocate, peer_private_release, NULL, run},
      {"banyan:registered-in-place", SIZED, 1, 0, allocate_registered, release_registered, NULL, run},
  };
  peer_job_t job = {.library = comm,
                    .max_over_ranks = max_over_ranks,
                    .contestants = contestants,
                    .contestant_count = sizeof contestants / sizeof *contestants};
  check(banyan_comm_user_rank(comm, &job.rank), comm);
  check(banyan_comm_count(comm, &job.size), comm);
  peer_measure(options, &job);
  check(banyan_comm_destroy(comm), NULL);
  return 0;
}

static int local_rank(int rank, void* argument) {
  const peer_options_t* options = argument;
  char url[4096];
  const int length = snprintf(url, sizeof url, "file://%s/banyan", options->meet);
  if (length < 0 || (size_t)length >= sizeof url) peer_fail("banyan_peer", "the path of --meet is too long");
  banyan_comm_t comm = NULL;
  check(banyan_comm_init_url(&comm, url, options->ranks, rank, NULL), NULL);
  return measure(options, comm);
}

int main(int argc, char** argv) {
  peer_options_t options = peer_parse(argc, argv);
  if (options.ranks > 0) return peer_start_ranks(&options, local_rank, &options);
  banyan_comm_t comm = NULL;
  check(banyan_comm_init_env(&comm, NULL), NULL);
  return measure(&options, comm);
}
