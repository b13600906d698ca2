/* What the machine can do, by plain loops: how long a flag takes from one process to another, by spinning, by yielding
 * and by futex, on two cores and on one; and how fast data moves from memory that another process has written. Prints
 * lines `what,value,unit`, medians of several blocks. Everything that is moved is checked; a wrong value ends with
 * status 1.
 *
 * Usage: floors          takes a few seconds, on the first two processors that this process may use. */
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/peers/measure.h"

enum { BLOCKS = 7, CACHE_LINE = 64, SLOT = 64 << 10, SLOTS = 8 };

typedef struct {
  _Alignas(CACHE_LINE) _Atomic uint32_t value;
} flag_t;

typedef struct {
  flag_t ping, pong;
  _Alignas(4096) float ring[SLOTS][SLOT / sizeof(float)];
} shared_t;

static void fail(const char* what) { peer_fail("floors", what); }

/* Its pages are there. */
static void* map_shared(size_t bytes) { return memset(peer_map_shared("floors", bytes), 0, bytes); }

static void pin(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) fail("cannot pin a process to a processor");
}

/* ---- Flags --------------------------------------------------------------------------------------------------------
 */

typedef enum { SPIN, YIELD, SLEEP } manner_t;

static void post(flag_t* flag, uint32_t value, manner_t manner) {
  atomic_store_explicit(&flag->value, value, memory_order_release);
  if (manner == SLEEP) syscall(SYS_futex, &flag->value, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void wait_for(flag_t* flag, uint32_t value, manner_t manner) {
  for (;;) {
    const uint32_t seen = atomic_load_explicit(&flag->value, memory_order_acquire);
    if (seen == value) return;
    if (seen + 1 != value) fail("a flag skipped a value");
    if (manner == YIELD) sched_yield();
    if (manner == SLEEP) syscall(SYS_futex, &flag->value, FUTEX_WAIT, seen, NULL, NULL, 0);
  }
}

/* Starts `body` in a process on `processor`; finish() waits for it. */
static pid_t start(int processor, void (*body)(shared_t*, void*), shared_t* shared, void* argument) {
  const pid_t child = fork();
  if (child < 0) fail("cannot fork");
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pin(processor);
  body(shared, argument);
  _exit(0); /* what the parent has yet to print is not ours to flush */
}

static void finish(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) fail("the other process failed");
}

typedef struct {
  manner_t manner;
  uint32_t rounds;
} flags_t;

static void answer(shared_t* shared, void* argument) {
  const flags_t* flags = argument;
  for (uint32_t i = 1; i <= flags->rounds * BLOCKS; ++i) {
    wait_for(&shared->ping, i, flags->manner);
    post(&shared->pong, i, flags->manner);
  }
}

/* Microseconds one way: half of there and back. */
static double flag_time(int here, int there, flags_t flags) {
  shared_t* shared = map_shared(sizeof *shared);
  const pid_t child = start(there, answer, shared, &flags);
  pin(here);
  double times[BLOCKS];
  uint32_t number = 0;
  for (int block = 0; block < BLOCKS; ++block) {
    const double begin = peer_now_seconds();
    for (uint32_t i = 0; i < flags.rounds; ++i) {
      post(&shared->ping, ++number, flags.manner);
      wait_for(&shared->pong, number, flags.manner);
    }
    times[block] = (peer_now_seconds() - begin) / flags.rounds / 2 * 1e6;
  }
  finish(child);
  munmap(shared, sizeof *shared);
  return peer_median(times, BLOCKS);
}

/* ---- Data ---------------------------------------------------------------------------------------------------------
 */

static float sample(size_t position) { return (float)(position * 2654435761u >> 8 & 1023); }

typedef struct {
  float* memory;
  size_t count;
} data_t;

static void write_samples(shared_t* shared, void* argument) {
  (void)shared;
  const data_t* data = argument;
  for (size_t i = 0; i < data->count; ++i) data->memory[i] = sample(i);
}

static void expect(const float* values, size_t count, float factor) {
  for (size_t i = 0; i < count; ++i) {
    if (values[i] != factor * sample(i)) fail("data arrived wrong");
  }
}

/* Writes the samples anew before every block that the other process times. */
static void write_on_request(shared_t* shared, void* argument) {
  for (uint32_t block = 1; block <= BLOCKS; ++block) {
    wait_for(&shared->ping, block, SPIN);
    write_samples(shared, argument);
    post(&shared->pong, block, SPIN);
  }
}

/* One timed move of `bytes` from memory that another core has just written: 1 when it could be done. */
typedef int move_t(float* restrict to, const float* restrict from, const float* restrict own, size_t bytes,
                   pid_t writer);

static int add(float* restrict to, const float* restrict from, const float* restrict own, size_t bytes, pid_t writer) {
  (void)writer;
  for (size_t i = 0; i < bytes / sizeof(float); ++i) to[i] = from[i] + own[i];
  return 1;
}

static int copy(float* restrict to, const float* restrict from, const float* restrict own, size_t bytes, pid_t writer) {
  (void)own, (void)writer;
  memcpy(to, from, bytes);
  return 1;
}

static int attach(float* restrict to, const float* restrict from, const float* restrict own, size_t bytes,
                  pid_t writer) {
  (void)own;
  for (size_t done = 0; done < bytes;) {
    struct iovec here = {(char*)to + done, bytes - done}, there = {(char*)from + done, bytes - done};
    const ssize_t got = process_vm_readv(writer, &here, 1, &there, 1, 0);
    if (got <= 0) return 0;
    done += (size_t)got;
  }
  return 1;
}

/* GB/s of the result's bytes; 0 where the kernel does not permit it. The source is shared memory, or private memory of
 * the writer at the same address. */
static double data_rate(int here, int there, size_t bytes, move_t* move, float factor) {
  shared_t* shared = map_shared(sizeof *shared);
  data_t data = {move == attach ? malloc(bytes) : map_shared(bytes), bytes / sizeof(float)};
  data_t own = {malloc(bytes), data.count};
  float* result = malloc(bytes);
  if (data.memory == NULL || result == NULL || own.memory == NULL) fail("out of memory");
  write_samples(NULL, &own);
  pin(here);
  const pid_t child = start(there, write_on_request, shared, &data);
  double rates[BLOCKS];
  int permitted = 1;
  for (uint32_t block = 1; block <= BLOCKS; ++block) {
    memset(result, 0xFF, bytes);
    post(&shared->ping, block, SPIN);
    wait_for(&shared->pong, block, SPIN);
    const double begin = peer_now_seconds();
    permitted = move(result, data.memory, own.memory, bytes, child);
    rates[block - 1] = (double)bytes / (peer_now_seconds() - begin) * 1e-9;
    if (permitted) expect(result, data.count, factor);
  }
  finish(child);
  if (move == attach) {
    free(data.memory);
  } else {
    munmap(data.memory, bytes);
  }
  munmap(shared, sizeof *shared);
  free(own.memory);
  free(result);
  return permitted ? peer_median(rates, BLOCKS) : 0;
}

static void feed_ring(shared_t* shared, void* argument) {
  const data_t* data = argument;
  const uint32_t slots = (uint32_t)(data->count * sizeof(float) / SLOT);
  for (uint32_t i = 0; i < slots * BLOCKS; ++i) {
    while (i - atomic_load_explicit(&shared->pong.value, memory_order_acquire) == SLOTS) continue;
    const float* from = data->memory + (size_t)(i % slots) * (SLOT / sizeof(float));
    memcpy(shared->ring[i % SLOTS], from, SLOT);
    atomic_store_explicit(&shared->ping.value, i + 1, memory_order_release);
  }
}

/* GB/s from private memory of one process to that of another through a ring of blocks. */
static double ring_rate(int here, int there, size_t bytes) {
  shared_t* shared = map_shared(sizeof *shared);
  const uint32_t slots = (uint32_t)(bytes / SLOT);
  data_t data = {malloc(bytes), bytes / sizeof(float)};
  float* result = malloc(bytes);
  if (data.memory == NULL || result == NULL) fail("out of memory");
  write_samples(NULL, &data);
  memset(result, 0xFF, bytes);
  pin(here);
  const pid_t child = start(there, feed_ring, shared, &data);
  double rates[BLOCKS];
  uint32_t number = 0;
  for (int block = 0; block < BLOCKS; ++block) {
    const double begin = peer_now_seconds();
    for (uint32_t i = 0; i < slots; ++i, ++number) {
      while (atomic_load_explicit(&shared->ping.value, memory_order_acquire) == number) continue;
      memcpy(result + (size_t)i * (SLOT / sizeof(float)), shared->ring[number % SLOTS], SLOT);
      atomic_store_explicit(&shared->pong.value, number + 1, memory_order_release);
    }
    rates[block] = (double)bytes / (peer_now_seconds() - begin) * 1e-9;
  }
  finish(child);
  expect(result, data.count, 1);
  munmap(shared, sizeof *shared);
  free(data.memory);
  free(result);
  return peer_median(rates, BLOCKS);
}

int main(void) {
  cpu_set_t allowed;
  int processors[2], found = 0;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) fail("cannot read the affinity");
  for (int i = 0; i < CPU_SETSIZE && found < 2; ++i) {
    if (CPU_ISSET(i, &allowed)) processors[found++] = i;
  }
  if (found < 2) fail("needs two processors");
  setvbuf(stdout, NULL, _IOLBF, 0);
  const int a = processors[0], b = processors[1];

  printf("what,value,unit\n");
  printf("flag by spinning to another core,%.4f,us\n", flag_time(a, b, (flags_t){SPIN, 100000}));
  printf("flag by yielding to another core,%.4f,us\n", flag_time(a, b, (flags_t){YIELD, 50000}));
  printf("flag by yielding on one core,%.4f,us\n", flag_time(a, a, (flags_t){YIELD, 50000}));
  printf("flag by futex on one core,%.4f,us\n", flag_time(a, a, (flags_t){SLEEP, 10000}));
  printf("flag by futex to a sleeping core,%.4f,us\n", flag_time(a, b, (flags_t){SLEEP, 5000}));
  static const struct {
    const char* name;
    size_t bytes;
  } sizes[] = {{"64 KiB", 64 << 10}, {"4 MiB", 4 << 20}, {"64 MiB", 64 << 20}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    const size_t bytes = sizes[i].bytes;
    printf("copy of %s that another core wrote,%.2f,GB/s\n", sizes[i].name, data_rate(a, b, bytes, copy, 1));
    printf("sum of %s that another core wrote and own,%.2f,GB/s\n", sizes[i].name, data_rate(a, b, bytes, add, 2));
    printf("shared ring of 64 KiB blocks for %s,%.2f,GB/s\n", sizes[i].name, ring_rate(a, b, bytes));
    printf("cross-memory attach of %s that another core wrote,%.2f,GB/s\n", sizes[i].name,
           data_rate(a, b, bytes, attach, 1));
  }
  return 0;
}
