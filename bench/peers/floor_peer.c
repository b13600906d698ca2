/* Floors as contestants: what plain loops over shared memory reach when all that a library must care for is left out
 * (one communicator, known peers, no errors, no other transports). No collective of this kind of data can be much
 * quicker on the machine; the distance to these lines is what a library costs.
 *
 * `inline`, for small ones, sends them beside their numbers. `resident` works on buffers that live in memory shared by
 * all ranks, and reads the peers' directly; `staged` on private buffers, through blocks of shared memory. `stripes`:
 * every rank reduces its part and writes it to all. `whole`: every rank reduces everything for itself. Local ranks
 * only: --ranks N --meet FOLDER (which it does not use).
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/peers/measure.h"

enum { CACHE_LINE = 64, MAX_RANKS = 64, BLOCK = 64 << 10, SLOTS = 4, INLINE = 2 << 10, RING = 32 };

typedef struct {
  _Alignas(CACHE_LINE) _Atomic uint64_t count; /* of what one rank has done */
} flag_t;

/* A small message with its number before it, so that the smallest take one cache line in all. */
typedef struct {
  _Alignas(CACHE_LINE) _Atomic uint64_t number;
  float data[INLINE / sizeof(float)];
} message_t;

typedef struct {
  flag_t flags[MAX_RANKS], blocks[MAX_RANKS], reads[MAX_RANKS], passed[MAX_RANKS];
  message_t messages[MAX_RANKS][RING];
  double maxima[2][MAX_RANKS];
  _Alignas(CACHE_LINE) char stages[MAX_RANKS][SLOTS][BLOCK];
} shared_t;

typedef struct {
  shared_t* shared;
  int rank, size;
  int crowded; /* more ranks than cores: give the core away while waiting */
  uint64_t epoch, staged, inlined;
  uint64_t passed; /* the inlined call that all others are known to have passed */
} floor_t;

/* Buffers of all ranks lie at equal places in areas of equal size, so that a peer's is found by adding. */
static struct {
  char *mine, *end;
  char* next;
  size_t area;
} arena;

static float* allocate_shared(size_t bytes) {
  if (bytes > (size_t)(arena.end - arena.next)) peer_fail("floor_peer", "the arena is full: sizes beyond 256 MiB");
  float* memory = (float*)(void*)arena.next;
  arena.next += bytes;
  return memory;
}

static void release_shared(float* memory) {
  if ((char*)memory < arena.next) arena.next = (char*)memory;
}

static float* of_peer(const floor_t* floor, const float* mine, int peer) {
  return (float*)((uintptr_t)mine + (size_t)(peer - floor->rank) * arena.area);
}

static void wait_until(const floor_t* floor, const _Atomic uint64_t* flag, uint64_t value) {
  while (atomic_load_explicit(flag, memory_order_acquire) < value) {
    if (floor->crowded) sched_yield();
  }
}

static void post(_Atomic uint64_t* flag, uint64_t value) { atomic_store_explicit(flag, value, memory_order_release); }

static void barrier(floor_t* floor) {
  post(&floor->shared->flags[floor->rank].count, ++floor->epoch);
  for (int p = 0; p < floor->size; ++p) wait_until(floor, &floor->shared->flags[p].count, floor->epoch);
}

/* Two sets of maxima in turn: a rank that is still reading one has not entered the barrier after the next. */
static double max_over_ranks(void* library, double value) {
  floor_t* floor = library;
  double* maxima = floor->shared->maxima[floor->epoch % 2];
  maxima[floor->rank] = value;
  barrier(floor);
  for (int p = 0; p < floor->size; ++p) value = maxima[p] > value ? maxima[p] : value;
  return value;
}

static void add(float* restrict to, const float* restrict left, const float* restrict right, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = left[i] + right[i];
}

static void add_to(float* restrict to, const float* restrict right, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] += right[i];
}

/* to = the sum over ranks of send[start, start + count), in steps that stay in the first cache. */
static void reduce_resident(const floor_t* floor, float* to, const float* send, size_t start, size_t count) {
  enum { STEP = 2048 };
  for (size_t done = 0; done < count; done += STEP) {
    const size_t length = count - done < STEP ? count - done : STEP;
    const float* first = of_peer(floor, send, 0) + start + done;
    if (floor->size == 1) memcpy(to + done, first, length * sizeof(float));
    if (floor->size > 1) add(to + done, first, of_peer(floor, send, 1) + start + done, length);
    for (int p = 2; p < floor->size; ++p) add_to(to + done, of_peer(floor, send, p) + start + done, length);
  }
}

/* ---- Resident buffers ---------------------------------------------------------------------------------------------
 */

static void reduce_my_stripe(const floor_t* floor, const peer_call_t* call) {
  enum { STEP = 2048 };
  const size_t ranks = (size_t)floor->size, share = (call->count + ranks - 1) / ranks;
  const size_t begin = share * (size_t)floor->rank < call->count ? share * (size_t)floor->rank : call->count;
  const size_t end = begin + share < call->count ? begin + share : call->count;
  for (size_t at = begin; at < end; at += STEP) {
    const size_t length = end - at < STEP ? end - at : STEP;
    reduce_resident(floor, call->recv + at, call->send, at, length);
    for (int p = 0; p < floor->size; ++p) {
      if (p != floor->rank) memcpy(of_peer(floor, call->recv, p) + at, call->recv + at, length * sizeof(float));
    }
  }
}

static void run_stripes(void* library, const peer_call_t* call) {
  floor_t* floor = library;
  barrier(floor);
  reduce_my_stripe(floor, call);
  barrier(floor);
}

static void run_resident(void* library, const peer_call_t* call) {
  floor_t* floor = library;
  const size_t count = call->count, bytes = count * sizeof(float), mine = (size_t)floor->rank * count;
  barrier(floor);
  switch (call->collective) {
    case PEER_ALLREDUCE:
      reduce_resident(floor, call->recv, call->send, 0, count);
      break;
    case PEER_REDUCE:
      if (floor->rank == 0) reduce_resident(floor, call->recv, call->send, 0, count);
      break;
    case PEER_REDUCE_SCATTER:
      reduce_resident(floor, call->recv, call->send, mine, count);
      break;
    case PEER_BROADCAST:
      if (floor->rank != 0) memcpy(call->recv, of_peer(floor, call->recv, 0), bytes);
      break;
    case PEER_ALLGATHER:
      for (int p = 0; p < floor->size; ++p) {
        memcpy(call->recv + (size_t)p * count, of_peer(floor, call->send, p), bytes);
      }
      break;
    case PEER_ALLTOALL:
      for (int p = 0; p < floor->size; ++p) {
        memcpy(call->recv + (size_t)p * count, of_peer(floor, call->send, p) + mine, bytes);
      }
      break;
    default:
      return; /* a barrier needs no second one */
  }
  barrier(floor);
}

/* ---- Private buffers ----------------------------------------------------------------------------------------------
 */

/* Each rank stages its blocks and adds those of the others; a slot is written again once all have read it. */
static void run_staged(void* library, const peer_call_t* call) {
  floor_t* floor = library;
  shared_t* shared = floor->shared;
  const size_t block = BLOCK / sizeof(float);
  const size_t blocks = (call->count + block - 1) / block;
  for (size_t step = 0; step < blocks + 1; ++step) {
    if (step < blocks) {
      const size_t at = step * block, length = call->count - at < block ? call->count - at : block;
      const uint64_t number = floor->staged + step;
      for (int p = 0; p < floor->size && number >= SLOTS; ++p) {
        wait_until(floor, &shared->reads[p].count, number - SLOTS + 1);
      }
      memcpy(shared->stages[floor->rank][number % SLOTS], call->send + at, length * sizeof(float));
      post(&shared->blocks[floor->rank].count, number + 1);
    }
    if (step == 0 && blocks > 1) continue; /* one block ahead, so that waiting overlaps with copying */
    const size_t done = blocks > 1 ? step - 1 : step;
    if (done >= blocks) break;
    const size_t at = done * block, length = call->count - at < block ? call->count - at : block;
    const uint64_t number = floor->staged + done;
    for (int p = 0; p < floor->size; ++p) {
      wait_until(floor, &shared->blocks[p].count, number + 1);
      const float* theirs = (const float*)(const void*)shared->stages[p][number % SLOTS];
      if (p == 0) memcpy(call->recv + at, theirs, length * sizeof(float));
      if (p > 0) add_to(call->recv + at, theirs, length);
    }
    post(&shared->reads[floor->rank].count, number + 1);
  }
  floor->staged += blocks;
}

/* ---- Small messages -----------------------------------------------------------------------------------------------
 */

static int sends(const floor_t* floor, peer_collective_t collective) {
  return collective == PEER_BROADCAST ? floor->rank == 0 : collective == PEER_REDUCE ? floor->rank != 0 : 1;
}

static int receives(const floor_t* floor, peer_collective_t collective) {
  return collective == PEER_BROADCAST ? floor->rank != 0 : collective == PEER_REDUCE ? floor->rank == 0 : 1;
}

/* The message of rank p to this call, or what this rank had to send itself. */
static const float* message_of(const floor_t* floor, const peer_call_t* call, int p) {
  if (p == floor->rank) return call->send;
  const message_t* message = &floor->shared->messages[p][floor->inlined % RING];
  wait_until(floor, &message->number, floor->inlined);
  return message->data;
}

static void receive(const floor_t* floor, const peer_call_t* call) {
  const size_t count = call->count, bytes = count * sizeof(float), mine = (size_t)floor->rank * count;
  const peer_collective_t collective = call->collective;
  if (collective == PEER_BROADCAST) {
    memcpy(call->recv, message_of(floor, call, 0), bytes);
    return;
  }
  for (int p = 0; p < floor->size; ++p) {
    const float* from = message_of(floor, call, p);
    if (collective == PEER_ALLGATHER || collective == PEER_ALLTOALL) {
      memcpy(call->recv + (size_t)p * count, from + (collective == PEER_ALLTOALL ? mine : 0), bytes);
    } else {
      const float* part = from + (collective == PEER_REDUCE_SCATTER ? mine : 0);
      if (p == 0) memcpy(call->recv, part, bytes);
      if (p > 0) add_to(call->recv, part, count);
    }
  }
}

/* Every rank writes its input into its own ring, and reads what it needs from those of the others. A sender may run
 * ahead by as many calls as the ring holds; every rank tells every quarter of the ring how far it is. */
static void run_inline(void* library, const peer_call_t* call) {
  floor_t* floor = library;
  shared_t* shared = floor->shared;
  const uint64_t number = ++floor->inlined;
  if (sends(floor, call->collective)) {
    if (number > floor->passed + RING) {
      for (int p = 0; p < floor->size; ++p) {
        if (p != floor->rank) wait_until(floor, &shared->passed[p].count, number - RING / 2);
      }
      floor->passed = number - RING / 2;
    }
    const int has_blocks = call->collective == PEER_ALLTOALL || call->collective == PEER_REDUCE_SCATTER;
    const size_t count = call->count * (size_t)(has_blocks ? floor->size : 1);
    message_t* message = &shared->messages[floor->rank][number % RING];
    memcpy(message->data, call->send, count * sizeof(float));
    post(&message->number, number);
  }
  if (receives(floor, call->collective)) receive(floor, call);
  if (number % (RING / 4) == 0) post(&shared->passed[floor->rank].count, number);
}

/* ---- Start --------------------------------------------------------------------------------------------------------
 */

typedef struct {
  const peer_options_t* options;
  shared_t* shared;
  char* areas;
} start_t;

static int run_rank(int rank, void* argument) {
  const start_t* start = argument;
  const int size = start->options->ranks;
  floor_t floor = {.shared = start->shared, .rank = rank, .size = size};
  floor.crowded = size > sysconf(_SC_NPROCESSORS_ONLN);
  arena.mine = arena.next = start->areas + (size_t)rank * arena.area;
  arena.end = arena.mine + arena.area;

  enum { ALL = ((1u << PEER_COLLECTIVES) - 1) & ~(1u << PEER_GATHER | 1u << PEER_SCATTER) };
  enum { SIZED = ALL & ~(1u << PEER_BARRIER), REDUCED = 1u << PEER_ALLREDUCE };
  const contestant_t contestants[] = {
      {"floor:inline", SIZED, 0, INLINE, peer_private_allocate, peer_private_release, NULL, run_inline},
      {"floor:resident", ALL, 0, 0, allocate_shared, release_shared, NULL, run_resident},
      {"floor:resident-stripes", REDUCED, 0, 0, allocate_shared, release_shared, NULL, run_stripes},
      {"floor:staged", REDUCED, 0, 0, peer_private_allocate, peer_private_release, NULL, run_staged},
  };
  const peer_job_t job = {.library = &floor,
                          .rank = rank,
                          .size = size,
                          .max_over_ranks = max_over_ranks,
                          .contestants = contestants,
                          .contestant_count = sizeof contestants / sizeof *contestants};
  peer_measure(start->options, &job);
  return 0;
}

int main(int argc, char** argv) {
  peer_options_t options = peer_parse(argc, argv);
  if (options.ranks < 1 || options.ranks > MAX_RANKS) peer_fail("floor_peer", "needs --ranks from 1 to 64");
  if (options.roots_change) peer_fail("floor_peer", "its root is always rank 0");
  arena.area = (size_t)513 << 20; /* two buffers of 256 MiB */
  start_t start = {.options = &options, .shared = peer_map_shared("floor_peer", sizeof(shared_t))};
  start.areas = peer_map_shared("floor_peer", arena.area * (size_t)options.ranks);
  return peer_start_ranks(&options, run_rank, &start);
}
