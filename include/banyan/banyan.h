/* Banyan: collective communication of host memory. The C interface.
 *
 * A *communicator* is a group of processes ("ranks", 0 to size - 1) that have joined; a *collective* is a call that
 * every rank of it makes, in the same order, with matching arguments. The shape is NCCL's; memory is ordinary host
 * memory.
 *
 *   banyan_comm_t comm;
 *   banyan_comm_init_env(&comm, NULL);                started by torchrun, srun, mpirun, `banyan run -n 4 -- ./program`
 *   banyan_all_reduce(x, y, n, BANYAN_FLOAT32, BANYAN_SUM, comm, NULL);
 *   banyan_comm_destroy(comm);
 *
 * RESULTS. Every function that can fail returns a banyan_result_t and changes nothing when it refuses its arguments. No
 * function ends the process. banyan_last_error() says in one line who is to blame and what mends it. If a rank dies, is
 * silent for longer than the timeout, or calls something else, the operations under way on the *other* ranks end with
 * BANYAN_PEER_LOST, BANYAN_TIMED_OUT or BANYAN_MISMATCH, and the communicator is *in error*: every later operation on
 * it returns the same result at once. It can then be shrunk (banyan_comm_shrink) or destroyed. The contents of output
 * buffers of failed operations are undefined; input buffers keep theirs, unless the operation was in place.
 *
 * REQUESTS. The last argument of every operation is where to put a request. NULL: the call blocks until the operation
 * is complete on this rank. Otherwise it returns at once and the operation runs on; its buffers are the library's until
 * banyan_wait() or banyan_test() has said that it is done. Several may be in flight; they complete in any order, but
 * those of one communicator start in the order of the calls. Progress is made by a thread of the library unless
 * config.progress_thread is 0; then only inside calls of this interface.
 *
 * COUNTS are in elements of the given type, never bytes, and may exceed 2^32. Zero is allowed everywhere, and pointers
 * may then be NULL. Buffers need no alignment; reductions are quicker when they are aligned to their elements.
 *
 * IN PLACE. `send == recv` where both have the same size (all_reduce, broadcast, reduce, all_to_all), `send == recv +
 * rank * count` elements (all_gather; gather at the root), `recv == send + rank * count` (reduce_scatter; scatter at
 * the root); with counts per rank, at the displacement of this rank. BANYAN_IN_PLACE stands for that address: as `send`
 * of the first two groups, as `recv` of the third. Other overlaps are undefined.
 *
 * SUMS are reproducible: for a given plan equal inputs give equal bits, whatever the message size, its pipelining, the
 * kind of memory, and the timing. On one host contributions are always added in the order of the ranks. float16 and
 * bfloat16 are added in float32, and rounded once in all on one host, once per addition over several; the products of a
 * premultiplied sum are rounded before they are added, too. Integers wrap round. BANYAN_MIN and BANYAN_MAX prefer any
 * number to NaN.
 *
 * THREADS. Different communicators may be used from different threads at the same time. One communicator may be used
 * from several threads too, if the caller sees to it that all ranks make the calls in the same order; calls then
 * exclude each other. A request may be waited for by any thread, by one at a time. After fork() the child must not use
 * communicators of its parent; calls refuse with BANYAN_INVALID_USAGE.
 *
 * TIME. After the word Time every function says how long it may take at most. *At once*: it waits for no other rank.
 * *timeout*: the seconds of config.timeout in which nothing of the communicator comes nearer to its end on this rank,
 * and two more, in which the ranks find out who is late; links that are lost, and what is sent again because of it,
 * do not prolong it. *join_timeout*: the seconds of config.join_timeout in all, and three more. A call of all ranks
 * has its timeout from its start on. A message between two ranks may be late as long as it likes until somebody waits
 * for it: in banyan_wait, banyan_wait_any, banyan_wait_all, banyan_comm_finalize, banyan_comm_destroy; or by
 * banyan_test (or banyan_wait_for) again and again, where the time from one to the next counts if it is below a
 * quarter of a second. Time in which the process itself did not run, being stopped or its machine suspended, does not
 * count.
 *
 * ENVIRONMENT. A field set in the config wins.
 *   BANYAN_TRANSPORT=auto|shm|tcp|ucx|service  BANYAN_TIMEOUT=seconds  BANYAN_JOIN_TIMEOUT=seconds
 *   BANYAN_FABRIC=file or generator    the network, for planning
 *   BANYAN_PLAN=file                   a plan of `banyan plan`
 *   BANYAN_ROUTES=file                 which addresses take which path
 *   BANYAN_SLICE=size                  the piece that moves at once, over connections
 *   BANYAN_CHECKSUMS=1                 bytes that go by TCP are checked against those sent; on all ranks or none
 *   BANYAN_ZERO_COPY=1                 TCP sends long pieces out of the buffers themselves, for networks of 10 Gb/s and
 *                                      more; calls end when all is acknowledged
 *   BANYAN_CONNECTIONS=n               by TCP with each peer, where there are no routes; the same on all ranks
 *   BANYAN_SECRET, BANYAN_SECRET_FILE  authenticate connections; without one only this user on this machine is accepted
 *   BANYAN_ENCRYPTION=off|auth|full    what goes by TCP is authenticated, or encrypted; the same on all ranks. Default:
 *                                      auth between hosts where a secret is set, else off
 *   BANYAN_SURVIVORS=any|majority|n    how many ranks must be left for banyan_comm_shrink
 *   BANYAN_ALONE=1                     one process is meant where banyan_comm_init_env finds no launcher
 *   BANYAN_LOG=info|debug  BANYAN_LOG_FILE=file  BANYAN_RECORDER_DIR=folder  BANYAN_DUMP_SIGNAL=USR1|USR2|none
 *   BANYAN_METRICS=port|file|folder    metrics for Prometheus: by HTTP at port + rank on this host, or in a file
 *   BANYAN_METRICS_HOSTS=name,...      what Prometheus may call this host there, beside addresses and its own name
 *   BANYAN_ISA=portable|avx2|avx512
 * A BANYAN_ variable that does not exist is warned about.
 *
 * Every function has a twin whose name begins with `p` (pbanyan_all_reduce) that does the work; the plain name is a
 * weak symbol, so that a profiler may define its own (profiling.h).
 *
 * Link with -lbanyan. banyan/communicator.h is the same for C++20.
 */
#ifndef BANYAN_H
#define BANYAN_H

#include <stddef.h>
#include <stdint.h>

/* Functions refuse numbers that an enumeration does not have. In C++ it may hold them only if its type is int. */
#ifdef __cplusplus
#define BANYAN_OF_INT : int
extern "C" {
#else
#define BANYAN_OF_INT
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define BANYAN_VERSION_MAJOR 0
#define BANYAN_VERSION_MINOR 3
#define BANYAN_VERSION_PATCH 0
/* The version of the header that a program was compiled with, as banyan_get_version gives that of the library. */
#define BANYAN_VERSION (BANYAN_VERSION_MAJOR * 10000 + BANYAN_VERSION_MINOR * 100 + BANYAN_VERSION_PATCH)

typedef enum BANYAN_OF_INT {
  BANYAN_SUCCESS = 0,
  BANYAN_INVALID_ARGUMENT = 1, /* a value that no rank could use */
  BANYAN_INVALID_USAGE = 2,    /* a call that is not allowed now: destroyed twice, after fork, group not ended */
  BANYAN_MISMATCH = 3,         /* ranks called different things */
  BANYAN_UNSUPPORTED = 4,      /* understood, but beyond what is implemented; the text says the limit */
  BANYAN_SYSTEM_ERROR = 5,     /* the operating system refused */
  BANYAN_PEER_LOST = 6,        /* a rank died or cannot be reached */
  BANYAN_TIMED_OUT = 7,        /* a deadline passed; the text names who is late */
  BANYAN_ABORTED = 8,          /* banyan_comm_abort was called */
  BANYAN_IN_PROGRESS = 9,      /* not done yet; no error */
  BANYAN_INTERNAL = 10         /* our bug; please report the text */
} banyan_result_t;

typedef enum BANYAN_OF_INT {
  BANYAN_INT8 = 0,
  BANYAN_INT16 = 1,
  BANYAN_INT32 = 2,
  BANYAN_INT64 = 3,
  BANYAN_UINT8 = 4,
  BANYAN_UINT16 = 5,
  BANYAN_UINT32 = 6,
  BANYAN_UINT64 = 7,
  BANYAN_FLOAT16 = 8,
  BANYAN_BFLOAT16 = 9,
  BANYAN_FLOAT32 = 10,
  BANYAN_FLOAT64 = 11,
  /* float32 in memory, a code of fewer bits on the wire: see Codes */
  BANYAN_FLOAT32_AS_BFLOAT16 = 12,
  BANYAN_FLOAT32_AS_FLOAT16 = 14,
  BANYAN_FLOAT32_AS_FP8 = 16,
  BANYAN_FLOAT32_AS_FP8_STOCHASTIC = 17,
  BANYAN_FLOAT32_AS_MXFP8 = 18,
  BANYAN_FLOAT32_AS_MXFP8_STOCHASTIC = 19,
  BANYAN_FLOAT32_AS_INT8 = 20,
  BANYAN_FLOAT32_AS_INT8_STOCHASTIC = 21,
  BANYAN_FLOAT32_AS_INT4 = 22,
  BANYAN_FLOAT32_AS_INT4_STOCHASTIC = 23,
  BANYAN_FLOAT32_AS_MXFP4 = 24,
  BANYAN_FLOAT32_AS_MXFP4_STOCHASTIC = 25,
  BANYAN_FLOAT32_AS_SIGN = 26
} banyan_type_t;

typedef enum BANYAN_OF_INT {
  BANYAN_SUM = 0,
  BANYAN_PROD = 1,
  BANYAN_MIN = 2,
  BANYAN_MAX = 3,
  BANYAN_AVG = 4,  /* the sum, divided by the size of the communicator; integers truncate towards zero */
  BANYAN_BAND = 5, /* and, or, exclusive or of every bit; of integers only */
  BANYAN_BOR = 6,
  BANYAN_BXOR = 7
} banyan_op_kind_t;
/* A banyan_op_kind_t, or what banyan_op_create_premul_sum or banyan_op_create_feedback made. */
typedef int banyan_op_t;

typedef struct banyan_comm* banyan_comm_t;
typedef struct banyan_request* banyan_request_t;
typedef struct banyan_residual* banyan_residual_t;
typedef struct banyan_sparse* banyan_sparse_t;

/* Stands for the address of the other buffer: see IN PLACE above. */
#define BANYAN_IN_PLACE ((void*)(uintptr_t)-1)
/* As the peer of banyan_recv_tagged: receives from the rank that sends first. */
#define BANYAN_ANY_RANK (-1)

/* The counts and times of this rank's calls in a communicator, since it was made. Fields may be added at the end;
 * initialise with BANYAN_STATISTICS_INIT. */
typedef struct {
  size_t size;
  uint64_t calls;         /* begun */
  uint64_t bytes;         /* of these calls: count times the size of an element */
  double seconds;         /* in calls that are over; small ones are timed by samples */
  double waiting_seconds; /* of all calls: in which nothing moved since this rank waited for another */
  double longest_wait;    /* seconds of these, for the one rank that it waited for longest */
  int longest_wait_rank;  /* that rank; -1: none */
  int reroutes;           /* as banyan_comm_get_reroutes */
  int lost_peers;         /* ranks that have died */
} banyan_statistics_t;
#define BANYAN_STATISTICS_INIT \
  { sizeof(banyan_statistics_t), 0, 0, 0, 0, 0, -1, 0, 0 }

/* A meeting point, as text; made by one rank and carried to the others by the application's own means. It holds a
 * secret: who knows it may join. */
typedef struct {
  char text[256];
} banyan_unique_id_t;

/* Fields may be added at the end; `size` tells the library which version the caller was compiled with. Initialise with
 * BANYAN_CONFIG_INIT. Strings are copied. NULL, 0 and negative numbers mean the default. The default timeouts of a
 * communicator that is made from another one are those of that one. */
typedef struct {
  size_t size;
  const char* name;      /* of the communicator, in messages and dumps; default "world" */
  double timeout;        /* seconds without progress: see TIME; default: BANYAN_TIMEOUT, else 300 */
  double join_timeout;   /* seconds for all ranks to come; default: BANYAN_JOIN_TIMEOUT, else 300 */
  const char* fabric;    /* file or generator of the network; default: BANYAN_FABRIC, else all hosts on one switch */
  const char* plan;      /* schedule file for its collective; default: BANYAN_PLAN, else planned */
  const char* transport; /* "auto", "shm", "tcp", "ucx", "service"; default: BANYAN_TRANSPORT, else "auto" */
  int progress_thread; /* 1: a thread makes progress on requests; 0: calls do; -1: default, a thread on first request */
  const char* routes;  /* file that says which addresses take which path through the fabric; default: BANYAN_ROUTES */
  int checksums;       /* 1: what goes by TCP is checked against what was sent; -1: default, BANYAN_CHECKSUMS, else 0 */
  int zero_copy;   /* 1: TCP sends long pieces out of the buffers themselves; -1: default, BANYAN_ZERO_COPY, else 0 */
  int connections; /* by TCP with each peer, where there are no routes; 1 to 16; default: BANYAN_CONNECTIONS, else 1 */
  /* The survivors that may shrink: "any", a "majority" (more than half of the ranks of `comm`), or at least so many, as
   * "3". The same on all ranks. Default: that of the communicator to be shrunk, BANYAN_SURVIVORS, else "any". */
  const char* survivors;
  const char* encryption; /* "off", "auth", "full": of what goes by TCP, chosen when ranks join; default:
                             BANYAN_ENCRYPTION, else "auth" between hosts where a secret is set, else "off" */
  int blocking; /* 0: banyan_comm_init_* return BANYAN_IN_PROGRESS at once, and join in the background (see Joining); 1
                   and -1, the default: they return when all have joined */
} banyan_config_t;
#define BANYAN_CONFIG_INIT \
  { sizeof(banyan_config_t), NULL, 0, 0, NULL, NULL, NULL, -1, NULL, -1, -1, 0, NULL, NULL, -1 }

/* ---- Joining ----------------------------------------------------------------------------------------------------- */

/* major * 10000 + minor * 100 + patch of the library in use. Time: at once. */
int banyan_get_version(void);
/* A few words for a result. Static. Time: at once. */
const char* banyan_result_text(banyan_result_t result);
/* The text of the last failure: of `comm`, or of this thread when `comm` is NULL. Valid until the next call of this
 * thread. Never NULL; cut after 2047 bytes. After a call that was to make a communicator, ask with NULL. Time: at
 * once. */
const char* banyan_last_error(banyan_comm_t comm);
/* Bytes of an element; 0 for a type that does not exist. Time: at once. */
size_t banyan_type_size(banyan_type_t type);

/* Opens a meeting point in this process; it stays until the communicator has been joined, or the process ends. Ranks
 * may be forked from this process afterwards; then it has to live until they have joined. Time: at once, but for the
 * time in which name servers are asked for BANYAN_ADDRESS. */
banyan_result_t banyan_get_unique_id(banyan_unique_id_t* id);
/* Collective: joins `size` ranks that hold the same id. Time: join_timeout.
 *
 * With config.blocking = 0 this function and the next two return BANYAN_IN_PROGRESS, with a handle that cannot be used
 * yet. banyan_comm_get_async_error says BANYAN_IN_PROGRESS until all have joined, or the error with which joining has
 * failed; other functions return BANYAN_INVALID_USAGE meanwhile. banyan_comm_abort and banyan_comm_destroy end it: this
 * rank gives up within a second, and those that have come end with BANYAN_ABORTED, which names it. */
banyan_result_t banyan_comm_init_rank(banyan_comm_t* comm, int size, banyan_unique_id_t id, int rank,
                                      const banyan_config_t* config);
/* The same by a meeting point in words: "tcp://host:port" (rank 0 listens there), "file:///path" (on a file system
 * that all share; the file must not exist before, or be left by a finished job). Time: join_timeout. */
banyan_result_t banyan_comm_init_url(banyan_comm_t* comm, const char* url, int size, int rank,
                                     const banyan_config_t* config);
/* The same by the environment of the launcher: banyan run, torchrun (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT),
 * Slurm, Open MPI, PMI. Alone when there is none of these, with a warning unless BANYAN_ALONE=1.
 * BANYAN_INVALID_ARGUMENT if a part of them is set and no rank, as with WORLD_SIZE=2 alone. Time: join_timeout. */
banyan_result_t banyan_comm_init_env(banyan_comm_t* comm, const banyan_config_t* config);

/* Collective. Ranks with equal `color` form a new communicator, ordered by `key`, then by rank. color < 0: takes part
 * in none, and gets NULL. Timeouts that config does not give are those of `comm`. Time: timeout, until all ranks have
 * called it, then join_timeout. */
banyan_result_t banyan_comm_split(banyan_comm_t comm, int color, int key, banyan_comm_t* result,
                                  const banyan_config_t* config);
/* Collective among the ranks that live: a new communicator without the ranks that are dead, and without those in
 * `excluded` (which may be NULL). Works on a communicator in error, and ends its operations. The order of ranks is
 * kept. Ranks that do not come within config.join_timeout (here default 1.5 s) are left out. Timeouts that config does
 * not give are those of `comm`, which remains to be destroyed.
 *
 * config.survivors says how many must survive. If the network is cut in two, "any" lets both halves go on, each without
 * the other; when they can reach each other again, the smaller half learns that it was taken for dead, and its
 * operations end with BANYAN_PEER_LOST. With "majority" at most one half ever gets a communicator; the other one gets
 * BANYAN_PEER_LOST, which names the rule and who is missing. Time: twice config.join_timeout (or 1.5 s) and ten seconds
 * in all. */
banyan_result_t banyan_comm_shrink(banyan_comm_t comm, const int* excluded, int excluded_count, banyan_comm_t* result,
                                   const banyan_config_t* config);
/* Collective among the ranks that live: *flag becomes the bitwise and of the flags of all that took part, the same on
 * all of them, whichever rank dies meanwhile (MPIX_Comm_agree of ULFM). Works on a communicator in error, and ends none
 * of its operations. BANYAN_PEER_LOST, with *flag set, when ranks are missing that were not missing in the agreement
 * before: all ranks that get the value get the same result, and the next agreement says nothing more of these ranks.
 *
 * Ranks that live and have not come within half of the timeout are left out, and get BANYAN_TIMED_OUT when they come;
 * ranks that were taken for dead BANYAN_ABORTED. With all results but BANYAN_SUCCESS and BANYAN_PEER_LOST *flag is as
 * it was. Time: timeout. */
banyan_result_t banyan_comm_agree(banyan_comm_t comm, int* flag);
/* Collective among the ranks of `comm` and newcomers: those of `comm` keep their ranks and pass any `rank`; newcomers
 * pass NULL for `comm` and a rank in [old size, size). The id comes from a rank of `comm`. Time: join_timeout. */
banyan_result_t banyan_comm_grow(banyan_comm_t comm, int size, banyan_unique_id_t id, int rank, banyan_comm_t* result,
                                 const banyan_config_t* config);

/* Waits for all operations of this rank, and tells the peers that it leaves in peace. If an operation has ended with an
 * error, it returns that. The communicator can then only be destroyed. Time: timeout. */
banyan_result_t banyan_comm_finalize(banyan_comm_t comm);
/* Finalizes if need be, and frees the communicator, also when it returns an error: that of an operation that has
 * failed, if no function has returned it before. Requests that were not waited for are ended with BANYAN_ABORTED. NULL
 * is allowed. To be called before main() returns: later, as by the destructor of a global variable, there is no
 * good-bye any more, and the peers take this rank for dead. Time: timeout, and a second for the good-bye; three with
 * UCX, and while it joins. */
banyan_result_t banyan_comm_destroy(banyan_comm_t comm);
/* Ends all operations of this rank at once with BANYAN_ABORTED, from any thread; peers learn that this rank is gone.
 * Ends joining (config.blocking). Time: at once. */
banyan_result_t banyan_comm_abort(banyan_comm_t comm);
/* BANYAN_SUCCESS, or why the communicator is in error; BANYAN_IN_PROGRESS while it joins. Does not block. Time: at
 * once. */
banyan_result_t banyan_comm_get_async_error(banyan_comm_t comm, banyan_result_t* error);

/* The number of times that calls under way were begun again because links or connections were lost: on other links
 * where the network offers a choice (BANYAN_ROUTES), else on the same. Time: at once. */
banyan_result_t banyan_comm_get_reroutes(banyan_comm_t comm, int* reroutes);
/* The counts and times of this rank's calls: of all when `call` is NULL, else of those of one function, such as
 * "all_reduce", "all_to_all_v" or "send". Costs some microseconds; any thread. BANYAN_METRICS shows the same to
 * Prometheus. Time: at once. */
banyan_result_t banyan_comm_get_statistics(banyan_comm_t comm, const char* call, banyan_statistics_t* statistics);
/* Time: at once. */
banyan_result_t banyan_comm_count(banyan_comm_t comm, int* size);
/* Time: at once. */
banyan_result_t banyan_comm_user_rank(banyan_comm_t comm, int* rank);
/* Valid as long as the communicator. Time: at once. */
banyan_result_t banyan_comm_get_name(banyan_comm_t comm, const char** name);
/* Seconds that an operation of this rank may make no progress, for those that begin from now on; <= 0: as in the
 * config. Time: at once. */
banyan_result_t banyan_comm_set_timeout(banyan_comm_t comm, double seconds);
/* Writes the flight record of this rank, and has the other ranks write theirs, where they can be reached. `why`
 * appears in them; may be NULL. Any thread; does not wait for the others. The signal BANYAN_DUMP_SIGNAL (USR1) does
 * the same for all communicators of the process, unless the program handles it. Time: at once. */
banyan_result_t banyan_comm_dump(banyan_comm_t comm, const char* why);

/* The links between the hosts of this user's communicators, as banyand, the service of this host, sees them, for
 * programs that plan their own traffic: JSON in UTF-8,
 *
 *   {"hosts": ["a", "b"], "links": [{"name": "leaf0->spine1", "capacity": 1.2e9, "own": 3e8, "free": 5e8,
 *                                    "cotenants": 2, "from": ["a"], "to": ["b"]}]}
 *
 * with bytes per second in the last tenths of a second: the links that paths from one of the hosts to another may
 * cross; what the user's own calls send over each, what nobody uses, and the number of other tenants that send over it.
 * Numbers are null if they are not known. Asks the daemon that BANYAN_SERVICE names, or that of this host. Valid until
 * this thread asks again. BANYAN_INVALID_ARGUMENT: there is no daemon; BANYAN_UNSUPPORTED: it does not know the
 * network. Any thread. Time: some milliseconds, and at most five seconds. */
banyan_result_t banyan_get_service_hints(const char** hints);

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* Memory that ranks of this host read and write directly, which spares a copy. Pages are present on return. Aligned to
 * a page; freed by banyan_mem_free, after the operations that use it. Belongs to the process, not to a communicator.
 * Time: at once. */
banyan_result_t banyan_mem_alloc(void** memory, size_t bytes);
/* Time: at once. */
banyan_result_t banyan_mem_free(void* memory);
/* Announces that [memory, memory + bytes) will be used often, so that the library can prepare it. Collectives on memory
 * of banyan_mem_alloc need no registration. Registered ordinary memory is read by cross-memory attach where that is
 * quicker. Must be deregistered before it is freed. Time: at once. */
banyan_result_t banyan_register(banyan_comm_t comm, void* memory, size_t bytes, void** handle);
/* Time: at once. */
banyan_result_t banyan_deregister(banyan_comm_t comm, void* handle);

/* ---- Reductions -------------------------------------------------------------------------------------------------- */

/* A sum to which this rank contributes its elements times `factor`, which is a whole number for integer types. Time:
 * at once. */
banyan_result_t banyan_op_create_premul_sum(banyan_op_t* op, double factor, banyan_comm_t comm);
/* A sum or an average (`kind`) of a coded type that adds the values of `residual` to those that this rank sends, and
 * keeps in it what the code loses: see Codes. For calls whose send buffer has as many elements on this rank. Time: at
 * once. */
banyan_result_t banyan_op_create_feedback(banyan_op_t* op, banyan_op_kind_t kind, banyan_residual_t residual,
                                          banyan_comm_t comm);
/* Time: at once. */
banyan_result_t banyan_op_destroy(banyan_op_t op, banyan_comm_t comm);

/* ---- Codes ------------------------------------------------------------------------------------------------------- */

/* Elements of the types BANYAN_FLOAT32_AS_... are float32 in memory and go in a code between hosts: in any collective
 * whose reduction, if it has one, is a sum or an average. Codes are
 *
 *   bfloat16, float16       16 bits a value
 *   fp8, mxfp8, int8        8.125 or 8.25
 *   int4, mxfp4             4.25
 *   sign                    1.125
 *
 * Those of the second and third line may round up or down by chance ("int8:stochastic"), so that the mean of many calls
 * has no bias. All ranks end with the same bits, since results are encoded once. Values that are not finite make NaN of
 * their block, 256 values or fewer. Ranks of one host, and those whose calls the service carries out, send float32 as
 * it is: then nothing is lost.
 *
 * The type of a code's name, such as "int8"; BANYAN_INVALID_ARGUMENT lists the names. Time: at once. */
banyan_result_t banyan_coded_type(const char* codec, banyan_type_t* type);

/* Memory for what the codes of one buffer of `count` elements lose on this rank, zero at first. Added to the next sum
 * (banyan_op_create_feedback), nothing is lost for good: over all ranks, sent + residual before = result + residual
 * after, but for the rounding of float32. A call that fails leaves it as it was, and so does an allreduce where its
 * result is not finite. One call at a time may use it. Time: at once. */
banyan_result_t banyan_residual_create(banyan_residual_t* residual, size_t count);
/* Its values between two calls: to save and restore them, to scale them with the gradients, to set them to zero. Valid
 * until the next call that uses it. Time: at once. */
banyan_result_t banyan_residual_values(banyan_residual_t residual, float** values, size_t* count);
/* BANYAN_INVALID_USAGE while a call uses it. NULL is allowed. Time: at once. */
banyan_result_t banyan_residual_destroy(banyan_residual_t residual);

/* ---- Collectives ------------------------------------------------------------------------------------------------- */

/* recv[i] = the reduction of send[i] over all ranks. Both hold `count`. Time: timeout; at once with a request. */
banyan_result_t banyan_all_reduce(const void* send, void* recv, size_t count, banyan_type_t type, banyan_op_t op,
                                  banyan_comm_t comm, banyan_request_t* request);
/* The same at `root`; elsewhere recv may be NULL. Time: timeout; at once with a request. */
banyan_result_t banyan_reduce(const void* send, void* recv, size_t count, banyan_type_t type, banyan_op_t op, int root,
                              banyan_comm_t comm, banyan_request_t* request);
/* recv = send of `root`, where send may equal recv; elsewhere send may be NULL. Time: timeout; at once with a
 * request. */
banyan_result_t banyan_broadcast(const void* send, void* recv, size_t count, banyan_type_t type, int root,
                                 banyan_comm_t comm, banyan_request_t* request);
/* recv holds size * count: the send of rank r, `count` elements, at r * count. Time: timeout; at once with a
 * request. */
banyan_result_t banyan_all_gather(const void* send, void* recv, size_t count, banyan_type_t type, banyan_comm_t comm,
                                  banyan_request_t* request);
/* The same with counts[r] elements from rank r at displacements[r] (NULL: one after the other). Arrays of `size`,
 * equal on all ranks; read before the call returns. Time: timeout; at once with a request. */
banyan_result_t banyan_all_gather_v(const void* send, void* recv, const size_t* counts, const size_t* displacements,
                                    banyan_type_t type, banyan_comm_t comm, banyan_request_t* request);
/* send holds size * count; recv = the reduction of the elements at rank * count. Time: timeout; at once with a
 * request. */
banyan_result_t banyan_reduce_scatter(const void* send, void* recv, size_t count, banyan_type_t type, banyan_op_t op,
                                      banyan_comm_t comm, banyan_request_t* request);
/* The same with counts[r] elements for rank r, one after the other in send. Time: timeout; at once with a request. */
banyan_result_t banyan_reduce_scatter_v(const void* send, void* recv, const size_t* counts, banyan_type_t type,
                                        banyan_op_t op, banyan_comm_t comm, banyan_request_t* request);
/* send and recv hold size * count: what is at p * count goes to rank p and arrives there at rank * count. Time:
 * timeout; at once with a request. */
banyan_result_t banyan_all_to_all(const void* send, void* recv, size_t count, banyan_type_t type, banyan_comm_t comm,
                                  banyan_request_t* request);
/* The same with counts and displacements for each peer; recv_counts[p] here equals send_counts[rank] at p.
 * Displacements may be NULL: one after the other. Time: timeout; at once with a request. */
banyan_result_t banyan_all_to_all_v(const void* send, const size_t* send_counts, const size_t* send_displacements,
                                    void* recv, const size_t* recv_counts, const size_t* recv_displacements,
                                    banyan_type_t type, banyan_comm_t comm, banyan_request_t* request);
/* recv at `root` holds size * count: the send of rank r at r * count. Time: timeout; at once with a request. */
banyan_result_t banyan_gather(const void* send, void* recv, size_t count, banyan_type_t type, int root,
                              banyan_comm_t comm, banyan_request_t* request);
/* send at `root` holds size * count; recv = the elements at rank * count. Time: timeout; at once with a request. */
banyan_result_t banyan_scatter(const void* send, void* recv, size_t count, banyan_type_t type, int root,
                               banyan_comm_t comm, banyan_request_t* request);
/* Returns when all ranks have called it. Time: timeout; at once with a request. */
banyan_result_t banyan_barrier(banyan_comm_t comm, banyan_request_t* request);

/* ---- Sparse sums ------------------------------------------------------------------------------------------------- */

/* The ways to add up rows: see banyan_sparse_create. */
typedef enum BANYAN_OF_INT {
  BANYAN_SPARSE_AUTO = 0,   /* whatever sends its bytes soonest, chosen anew in each call */
  BANYAN_SPARSE_DENSE = 1,  /* an allreduce of the whole table */
  BANYAN_SPARSE_GATHER = 2, /* every rank gets the rows of all */
  BANYAN_SPARSE_SHARDS = 3  /* each row has an owner, which adds it up and sends the sum to all */
} banyan_sparse_way_t;

/* A table of `rows` times `width` values of which each rank has some rows at a time, as the gradient of an embedding.
 * `type` is BANYAN_FLOAT32 or a code, BANYAN_FLOAT32_AS_...; with one, what is lost on this rank is kept by row and
 * added the next time, as by a residual. Less than 2^32 rows. All ranks make equal tables, in the same order; nothing
 * is sent. To be destroyed before the communicator. Time: at once. */
banyan_result_t banyan_sparse_create(banyan_sparse_t* table, size_t rows, size_t width, banyan_type_t type,
                                     banyan_sparse_way_t way, banyan_comm_t comm);
/* The sum over all ranks of `count` rows of each: row rows[i] has the values from i * width on. They may come in any
 * order, and several times: then they are added. All ranks get the same rows, ascending, with the same bits, until the
 * table's next call: those that any rank has given. The arrays are the library's, and may be NULL with nothing to get.
 * Contributions are added in the order of the ranks, but for those that go densely. A value that is not finite is so on
 * all ranks, and leaves what is kept as it was; so does a call that fails. A rank whose arguments are wrong gets
 * BANYAN_INVALID_ARGUMENT, and all others BANYAN_MISMATCH, which names it: nothing was added, and the table can be used
 * further. A collective, called in the order of all others. Time: timeout for each of its four exchanges. */
banyan_result_t banyan_sparse_all_reduce(const int64_t* rows, const float* values, size_t count, banyan_sparse_t table,
                                         const int64_t** sum_rows, const float** sum_values, size_t* sum_count);
/* The losses that are kept on this rank between two calls, rows * width values: to save and restore them, to scale
 * them, to set them to zero. NULL and 0 if the type is BANYAN_FLOAT32. Time: at once. */
banyan_result_t banyan_sparse_residual(banyan_sparse_t table, float** values, size_t* count);
/* The way that the last call took, and the bytes that this rank sent in it; for a dense one, those that a ring would
 * send. Either may be NULL. Time: at once. */
banyan_result_t banyan_sparse_last_call(banyan_sparse_t table, banyan_sparse_way_t* way, uint64_t* bytes);
/* NULL is allowed. Time: at once. */
banyan_result_t banyan_sparse_destroy(banyan_sparse_t table);

/* ---- Between two ranks ------------------------------------------------------------------------------------------- */

/* The n-th send to a rank matches the n-th receive there from this one; counts must be equal. A blocking send returns
 * when its buffer may be used again, which may be before or after the peer has begun to receive. Time: timeout; at
 * once with a request. */
banyan_result_t banyan_send(const void* send, size_t count, banyan_type_t type, int peer, banyan_comm_t comm,
                            banyan_request_t* request);
/* Receives from the rank `peer`: BANYAN_ANY_RANK is refused here. Time: timeout; at once with a request. */
banyan_result_t banyan_recv(void* recv, size_t count, banyan_type_t type, int peer, banyan_comm_t comm,
                            banyan_request_t* request);

/* The same among messages with an equal tag: a receive takes only messages that were sent with its own tag. The two
 * functions above have the tag 0. `peer` of a receive may be BANYAN_ANY_RANK; *source becomes the rank that sent, when
 * the receive is done, and may be NULL. Time: timeout; at once with a request. */
banyan_result_t banyan_send_tagged(const void* send, size_t count, banyan_type_t type, int peer, uint32_t tag,
                                   banyan_comm_t comm, banyan_request_t* request);
/* Time: timeout; at once with a request. */
banyan_result_t banyan_recv_tagged(void* recv, size_t count, banyan_type_t type, int peer, uint32_t tag, int* source,
                                   banyan_comm_t comm, banyan_request_t* request);

/* Operations of this thread between the two begin together, so that an exchange of sends and receives cannot deadlock.
 * group_end blocks until all that were given no request are complete. Groups nest; the outermost end counts. Time: at
 * once. */
banyan_result_t banyan_group_start(void);
/* Time: timeout; at once when all were given requests. */
banyan_result_t banyan_group_end(void);

/* ---- Requests ---------------------------------------------------------------------------------------------------- */

/* Does not block. Returns BANYAN_IN_PROGRESS until the request is done; then returns its result, frees it and sets
 * *request to NULL. Time: at once. */
banyan_result_t banyan_test(banyan_request_t* request);
/* Blocks until it is done; returns its result, frees it and sets *request to NULL. A NULL request is done. Time:
 * timeout. */
banyan_result_t banyan_wait(banyan_request_t* request);
/* The same for so many seconds at most; then BANYAN_IN_PROGRESS, and the request goes on. Time: the given seconds in
 * all. */
banyan_result_t banyan_wait_for(banyan_request_t* request, double seconds);
/* Blocks until one of them is done, NULLs being passed over; *index is its index, or -1 when all are NULL. Time:
 * timeout. */
banyan_result_t banyan_wait_any(banyan_request_t* requests, int count, int* index);
/* Waits for all; returns the first failure, if any. Time: timeout. */
banyan_result_t banyan_wait_all(banyan_request_t* requests, int count);

#undef BANYAN_OF_INT
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif /* BANYAN_H */
