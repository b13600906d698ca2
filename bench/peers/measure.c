#include "bench/peers/measure.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 9, FEWEST_BLOCKS = 3, CHUNK = 1024 };

double peer_now_seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int ascending(const void* left, const void* right) {
  const double l = *(const double*)left, r = *(const double*)right;
  return (l > r) - (l < r);
}

double peer_median(double* values, int count) {
  qsort(values, (size_t)count, sizeof *values, ascending);
  return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

void peer_fail(const char* who, const char* what) {
  fprintf(stderr, "%s: %s\n", who, what);
  exit(1);
}

float* peer_private_allocate(size_t bytes) {
  void* memory = NULL;
  if (posix_memalign(&memory, (size_t)sysconf(_SC_PAGESIZE), bytes) != 0) peer_fail("measure", "out of memory");
  return memory;
}

void peer_private_release(float* memory) { free(memory); }

void* peer_map_shared(const char* who, size_t bytes) {
  void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) peer_fail(who, "cannot map shared memory");
  return memory;
}

/* ---- Data: whole numbers below 1,024, so that the sums of up to 4,096 ranks are exact. --------------------------- */

/* An odd multiplier per rank: neither a shifted block nor another rank's block looks right. */
static uint32_t sample(int rank, size_t position) {
  const uint32_t multiplier = 2654435761u + 81006u * (uint32_t)rank;
  return ((uint32_t)position * multiplier + 40503u * (uint32_t)rank) >> 22;
}

static void fill(float* send, size_t count, int rank) {
  for (size_t i = 0; i < count; ++i) send[i] = (float)(int32_t)sample(rank, i);
}

/* How many of output[0, count) differ from the sum over ranks [first, first + ranks) of their inputs from `position`.
 */
static double wrong_elements(const float* output, size_t count, int first, int ranks, size_t position) {
  uint32_t sums[CHUNK];
  size_t wrong = 0;
  for (size_t start = 0; start < count; start += CHUNK) {
    const size_t length = count - start < CHUNK ? count - start : CHUNK;
    memset(sums, 0, sizeof sums);
    for (int rank = first; rank < first + ranks; ++rank) {
      for (size_t i = 0; i < length; ++i) sums[i] += sample(rank, position + start + i);
    }
    for (size_t i = 0; i < length; ++i) wrong += output[start + i] != (float)(int32_t)sums[i];
  }
  return (double)wrong;
}

static double wrong_in_output(const peer_call_t* call, int rank, int size) {
  double wrong = 0;
  switch (call->collective) {
    case PEER_ALLREDUCE:
      return wrong_elements(call->recv, call->count, 0, size, 0);
    case PEER_REDUCE:
      return rank == call->root ? wrong_elements(call->recv, call->count, 0, size, 0) : 0;
    case PEER_BROADCAST:
      return wrong_elements(call->recv, call->count, call->root, 1, 0);
    case PEER_SCATTER:
      return wrong_elements(call->recv, call->count, call->root, 1, (size_t)rank * call->count);
    case PEER_REDUCE_SCATTER:
      return wrong_elements(call->recv, call->count, 0, size, (size_t)rank * call->count);
    case PEER_GATHER:
      if (rank != call->root) return 0;
      /* fall through */
    case PEER_ALLGATHER:
      for (int p = 0; p < size; ++p)
        wrong += wrong_elements(call->recv + (size_t)p * call->count, call->count, p, 1, 0);
      return wrong;
    case PEER_ALLTOALL:
      for (int p = 0; p < size; ++p) {
        wrong += wrong_elements(call->recv + (size_t)p * call->count, call->count, p, 1, (size_t)rank * call->count);
      }
      return wrong;
    default:
      return 0;
  }
}

/* ---- Buffers ----------------------------------------------------------------------------------------------------- */

typedef struct {
  float* send;
  float* recv; /* the same as send where one holds both */
  size_t send_count, recv_count;
  size_t bytes; /* the larger of both, what is reported */
  peer_call_t call;
} buffers_t;

static size_t whole_pages(size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) / page * page;
}

static int has_root(peer_collective_t collective) {
  return collective == PEER_BROADCAST || collective == PEER_REDUCE || collective == PEER_GATHER ||
         collective == PEER_SCATTER;
}

static int has_blocks(peer_collective_t collective) {
  return collective != PEER_ALLREDUCE && collective != PEER_BROADCAST && collective != PEER_REDUCE;
}

static buffers_t make_buffers(const contestant_t* contestant, const peer_job_t* job, peer_collective_t collective,
                              size_t bytes, int roots_change) {
  const size_t ranks = (size_t)job->size, elements = bytes / sizeof(float);
  buffers_t b = {0};
  b.call.collective = collective;
  if (collective == PEER_BARRIER) return b;
  const size_t blocks = has_blocks(collective) ? ranks : 1;
  b.call.count = elements / blocks > 0 ? elements / blocks : 1;
  const int gathers = collective == PEER_ALLGATHER || collective == PEER_GATHER;
  const int scatters = collective == PEER_REDUCE_SCATTER || collective == PEER_SCATTER;
  b.send_count = b.call.count * (gathers ? 1 : blocks);
  b.recv_count = b.call.count * (scatters ? 1 : blocks);
  b.bytes = b.call.count * blocks * sizeof(float);

  /* A root of broadcast has one buffer, and where roots change each rank will be one: all hold what rank 0 had. */
  const int shared = contestant->in_place || (collective == PEER_BROADCAST && (job->rank == 0 || roots_change));
  const size_t offset = (size_t)job->rank * b.call.count;
  b.recv = contestant->allocate(whole_pages(shared ? b.bytes : b.recv_count * sizeof(float)));
  b.send = shared ? b.recv : contestant->allocate(whole_pages(b.send_count * sizeof(float)));
  b.call.recv = b.recv + (shared && scatters ? offset : 0);
  b.call.send = b.send + (shared && gathers ? offset : 0);
  return b;
}

/* Poisons what is to be received with NaN and writes the input. */
static void fill_buffers(const buffers_t* b, int rank) {
  if (b->call.collective == PEER_BARRIER) return;
  memset(b->recv, 0xFF, b->send == b->recv ? b->bytes : b->recv_count * sizeof(float));
  fill((float*)b->call.send, b->send_count, rank);
}

static void release_buffers(const contestant_t* contestant, const buffers_t* b) {
  if (b->call.collective == PEER_BARRIER) return;
  if (b->send != b->recv) contestant->release(b->send);
  contestant->release(b->recv);
}

/* ---- Time -------------------------------------------------------------------------------------------------------- */

/* What is timed. `call` keeps the root of its last call; where roots change, the next call has the next rank. */
typedef struct {
  const contestant_t* contestant;
  const peer_job_t* job;
  peer_call_t* call;
  int roots_change;
} timed_t;

/* Seconds per call of the slowest rank. All ranks start together because max_over_ranks, called before, holds them. */
static double time_block(const timed_t* timed, long calls) {
  const peer_job_t* job = timed->job;
  peer_call_t* call = timed->call;
  job->max_over_ranks(job->library, 0);
  const double start = peer_now_seconds();
  for (long i = 0; i < calls; ++i) {
    if (timed->roots_change) call->root = call->root + 1 < job->size ? call->root + 1 : 0;
    timed->contestant->run(job->library, call);
  }
  const double mine = (peer_now_seconds() - start) / (double)calls;
  return job->max_over_ranks(job->library, mine);
}

/* The calls per block and the number of blocks that fill min_seconds; equal on all ranks, since times are maxima. */
static void find_lengths(const timed_t* timed, double min_seconds, long* calls, int* blocks) {
  const double target = min_seconds / BLOCKS;
  *calls = 1;
  for (;;) {
    /* The best of three, lest one stall of the scheduler passes for a slow library. */
    double best = time_block(timed, *calls);
    for (int again = 0; again < 2 && best * (double)*calls < min_seconds; ++again) {
      const double time = time_block(timed, *calls);
      if (time < best) best = time;
    }
    const double block = best * (double)*calls;
    if (block >= target / 2) {
      *calls = block >= target ? *calls : 2 * *calls;
      const double wanted = min_seconds / (best * (double)*calls);
      *blocks = wanted >= BLOCKS ? BLOCKS : wanted <= FEWEST_BLOCKS ? FEWEST_BLOCKS : (int)wanted;
      return;
    }
    const double factor = target / (block > 0 ? block : 1e-9);
    *calls *= factor > 16 ? 16 : factor < 2 ? 2 : (long)factor;
  }
}

static double median_block(const peer_options_t* options, const timed_t* timed) {
  if (options->calls > 0) return time_block(timed, options->calls);
  long calls;
  int blocks;
  double times[BLOCKS];
  find_lengths(timed, options->min_seconds, &calls, &blocks);
  for (int i = 0; i < blocks; ++i) times[i] = time_block(timed, calls);
  return peer_median(times, blocks);
}

/* ---- The order of things ----------------------------------------------------------------------------------------- */

static void measure_one(const peer_options_t* options, const peer_job_t* job, const contestant_t* contestant,
                        peer_collective_t collective, size_t size) {
  if (contestant->most_bytes > 0 && size > contestant->most_bytes) return;
  buffers_t buffers = make_buffers(contestant, job, collective, size, options->roots_change);
  fill_buffers(&buffers, job->rank);
  if (contestant->prepare != NULL) contestant->prepare(job->library, &buffers.call);
  contestant->run(job->library, &buffers.call);
  double wrong = wrong_in_output(&buffers.call, job->rank, job->size);
  const timed_t timed = {contestant, job, &buffers.call, options->roots_change};
  const double seconds = median_block(options, &timed);
  if (collective == PEER_BROADCAST) buffers.call.root = 0;
  if (!contestant->in_place) wrong += wrong_in_output(&buffers.call, job->rank, job->size);
  wrong = job->max_over_ranks(job->library, wrong);
  if (job->rank == 0) {
    printf("%s,%s%s,%zu,%.4f,%.0f\n", contestant->name, peer_collective_names[collective],
           options->roots_change ? "-roots" : "", buffers.bytes, seconds * 1e6, wrong);
    fflush(stdout);
  }
  release_buffers(contestant, &buffers);
}

static int is_listed(const char* list, const char* name) {
  const size_t length = strlen(name);
  for (const char* found = list; (found = strstr(found, name)) != NULL; found += length) {
    const int begins = found == list || found[-1] == ',';
    if (begins && (found[length] == ',' || found[length] == '\0')) return 1;
  }
  return 0;
}

void peer_measure(const peer_options_t* options, const peer_job_t* job) {
  for (int collective = 0; collective < PEER_COLLECTIVES; ++collective) {
    if (!(options->collectives >> collective & 1)) continue;
    if (options->roots_change && !has_root((peer_collective_t)collective)) continue;
    for (int i = 0; i < (collective == PEER_BARRIER ? 1 : options->size_count); ++i) {
      for (int c = 0; c < job->contestant_count; ++c) {
        const contestant_t* contestant = &job->contestants[c];
        if (options->contest != NULL && !is_listed(options->contest, contestant->name)) continue;
        if (!(contestant->collectives >> collective & 1)) continue;
        measure_one(options, job, contestant, (peer_collective_t)collective, options->sizes[i]);
      }
    }
  }
}
