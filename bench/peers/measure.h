/* What every peer of the comparison shares: the options, the data, the clock and the check, so that libraries differ in
 * nothing but the collective that is timed.
 *
 * A peer is a program of which one process per rank runs. It describes its library as a `peer_job_t` with one
 * `contestant_t` per way of using it, and calls peer_measure(), which for every collective, size and contestant
 *   1. fills the inputs with values that depend on rank and position, makes one call and compares all of the result
 * with what one process computes for itself;
 *   2. finds out how many calls fill a block of time, then times blocks of calls back to back, as nccl-tests does. A
 *      block's time is that of the slowest rank, the figure is the median of the blocks, in microseconds per call;
 *   3. compares the result of the last call too (not in place, where calls build upon one another).
 * Rank 0 prints a line `name,collective,bytes,microseconds,wrong` to stdout; `wrong` is the number of wrong elements on
 * the worst rank. Elements are float32, sums. `bytes` is the larger of what a rank sends and receives, as in
 * nccl-tests, rounded to at least one element per block; 0 for barrier, which has no size. Where roots change, the name
 * of the collective ends with "-roots", and only those that have a root are measured.
 *
 * In place, input and output share memory as the MPI standard has it; broadcast always has one buffer on the root.
 *
 * A failing library ends its process with a message and status 1; the launcher then ends the others. Single-threaded.
 */
#ifndef BANYAN_BENCH_PEERS_MEASURE_H
#define BANYAN_BENCH_PEERS_MEASURE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  PEER_ALLREDUCE,
  PEER_ALLGATHER,
  PEER_BROADCAST, /* from peer_call_t.root */
  PEER_ALLTOALL,
  PEER_REDUCE_SCATTER,
  PEER_REDUCE, /* to peer_call_t.root */
  PEER_GATHER,
  PEER_SCATTER,
  PEER_BARRIER,
  PEER_COLLECTIVES /* how many there are */
} peer_collective_t;
/* "allreduce", ..., as the command line and the output have them. */
extern const char* const peer_collective_names[PEER_COLLECTIVES];

/* One collective on buffers. `count` is in elements: of the whole buffer for allreduce, broadcast and reduce, of one
 * rank's block for allgather, alltoall, reduce-scatter, gather and scatter, 0 for barrier. Both pointers are valid on
 * every rank, and where roots change long enough for a root on every rank. */
typedef struct {
  peer_collective_t collective;
  int root; /* of broadcast, reduce, gather and scatter; 0 unless roots change */
  const float* send;
  float* recv;
  size_t count;
} peer_call_t;

/* One way to use a library. The functions end the process when they fail. */
typedef struct {
  const char* name;     /* the first column: "openmpi", "gloo:ring" */
  unsigned collectives; /* one bit per peer_collective_t that it offers */
  int in_place;
  size_t most_bytes;                /* what it is meant for; 0: any size */
  float* (*allocate)(size_t bytes); /* bytes > 0, a whole number of pages */
  void (*release)(float* memory);
  void (*prepare)(void* library, const peer_call_t* call); /* once before calls with these buffers; may be NULL */
  void (*run)(void* library, const peer_call_t* call);
} contestant_t;

typedef struct {
  void* library; /* handed to the functions */
  int rank, size;
  double (*max_over_ranks)(void* library, double value); /* the greatest value of all ranks, on all ranks */
  const contestant_t* contestants;
  int contestant_count;
} peer_job_t;

enum { PEER_MAX_SIZES = 64 };

typedef struct {
  unsigned collectives; /* one bit each */
  size_t sizes[PEER_MAX_SIZES];
  int size_count;
  double min_seconds;  /* of timed calls per line, but at least three of them */
  long calls;          /* > 0: time one block of so many calls instead, for networks where a call takes seconds */
  int roots_change;    /* each call has the next rank for its root, so that no rank runs ahead of the others */
  const char* contest; /* comma separated names of contestants; NULL: all */
  int bind;            /* each local rank to a processor of its own, as MPI's launchers do */
  int ranks;           /* processes to start here; 0: the environment says who we are */
  const char* meet;    /* where local processes meet: a folder; NULL where the launcher takes care of it */
} peer_options_t;

/* --collective a,b --sizes 4,64,8388608 --min-seconds 0.2 --calls 1 --roots change --contest a,b --ranks 4 --meet DIR
 * --bind core.
 * Prints the usage and exits with 2 when there is anything else. */
peer_options_t peer_parse(int argc, char** argv);

/* Exits with status 1 after printing `who: what` to stderr. */
void peer_fail(const char* who, const char* what);

double peer_now_seconds(void); /* of a clock that never goes back */
/* Sorts the values. */
double peer_median(double* values, int count);
/* Zeroed memory that processes forked later share. */
void* peer_map_shared(const char* who, size_t bytes);

/* Ordinary private memory on page boundaries, for contestants that have no allocator of their own. */
float* peer_private_allocate(size_t bytes);
void peer_private_release(float* memory);

/* Runs everything that the options ask for and a contestant offers. */
void peer_measure(const peer_options_t* options, const peer_job_t* job);

/* Starts options->ranks processes and runs main_of_rank(rank, argument) in each, its exit status. Returns 0 when
 * all of them exit with 0; when one does not, ends the others and returns 1. */
int peer_start_ranks(const peer_options_t* options, int (*main_of_rank)(int rank, void* argument), void* argument);

#ifdef __cplusplus
}
#endif

#endif /* BANYAN_BENCH_PEERS_MEASURE_H */
