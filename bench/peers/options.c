/* The command line of the peers, and the start of local ranks. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/peers/measure.h"

const char* const peer_collective_names[PEER_COLLECTIVES] = {
    "allreduce", "allgather", "broadcast", "alltoall", "reduce-scatter", "reduce", "gather", "scatter", "barrier"};

static void refuse(const char* option, const char* value) {
  fprintf(stderr,
          "cannot use '%s %s'\n"
          "usage: --collective allreduce,...  default: all of them\n"
          "       --sizes 4,64,8388608        bytes, the larger of sent and received; default 4\n"
          "       --min-seconds 0.2           of timed calls per line\n"
          "       --calls 1                   time just so many calls per line instead\n"
          "       --roots change|stay         another root at every call, or always rank 0; default: stay\n"
          "       --contest name,...          which ways of using the library; default: all of them\n"
          "       --ranks 4 --meet FOLDER     start the ranks here; else the launcher has\n"
          "       --bind core|none            each of these to a processor of its own, or not; default: not\n",
          option, value);
  exit(2);
}

static double positive_number(const char* option, const char* text) {
  char* end = NULL;
  const double number = strtod(text, &end);
  if (end == text || *end != '\0' || !(number > 0) || number > 1e12) refuse(option, text);
  return number;
}

static unsigned parse_collectives(const char* option, const char* list) {
  unsigned result = 0;
  for (const char* word = list; *word != '\0';) {
    const size_t length = strcspn(word, ",");
    unsigned found = 0;
    for (int i = 0; i < PEER_COLLECTIVES; ++i) {
      const char* name = peer_collective_names[i];
      if (strlen(name) == length && strncmp(word, name, length) == 0) found = 1u << i;
    }
    if (found == 0) refuse(option, list);
    result |= found;
    word += length + (word[length] == ',');
  }
  return result;
}

static void parse_sizes(const char* option, const char* list, peer_options_t* options) {
  options->size_count = 0;
  for (const char* word = list; *word != '\0';) {
    char* end = NULL;
    const unsigned long long bytes = strtoull(word, &end, 10);
    if (end == word || (*end != ',' && *end != '\0') || options->size_count == PEER_MAX_SIZES) refuse(option, list);
    options->sizes[options->size_count++] = (size_t)bytes;
    word = end + (*end == ',');
  }
}

peer_options_t peer_parse(int argc, char** argv) {
  peer_options_t options = {
      .collectives = (1u << PEER_COLLECTIVES) - 1, .sizes = {4}, .size_count = 1, .min_seconds = 0.2};
  for (int i = 1; i < argc; i += 2) {
    const char* option = argv[i];
    if (i + 1 == argc) refuse(option, "(no value)");
    const char* value = argv[i + 1];
    if (strcmp(option, "--collective") == 0) {
      options.collectives = parse_collectives(option, value);
    } else if (strcmp(option, "--sizes") == 0) {
      parse_sizes(option, value, &options);
    } else if (strcmp(option, "--min-seconds") == 0) {
      options.min_seconds = positive_number(option, value);
    } else if (strcmp(option, "--calls") == 0) {
      options.calls = (long)positive_number(option, value);
    } else if (strcmp(option, "--roots") == 0) {
      if (strcmp(value, "change") != 0 && strcmp(value, "stay") != 0) refuse(option, value);
      options.roots_change = strcmp(value, "change") == 0;
    } else if (strcmp(option, "--contest") == 0) {
      options.contest = value;
    } else if (strcmp(option, "--ranks") == 0) {
      options.ranks = (int)positive_number(option, value);
    } else if (strcmp(option, "--bind") == 0) {
      if (strcmp(value, "core") != 0 && strcmp(value, "none") != 0) refuse(option, value);
      options.bind = strcmp(value, "core") == 0;
    } else if (strcmp(option, "--meet") == 0) {
      options.meet = value;
    } else {
      refuse(option, value);
    }
  }
  if (options.ranks > 0 && options.meet == NULL) refuse("--ranks", "without --meet FOLDER");
  return options;
}

/* To the rank-th of the processors that this process may use. */
static void bind_rank(int rank) {
  cpu_set_t allowed, mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) peer_fail("start", "cannot read the affinity");
  int left = rank;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &allowed) && left-- == 0) CPU_SET(processor, &mine);
  }
  if (CPU_COUNT(&mine) == 0) peer_fail("start", "--bind core needs a processor for each rank");
  if (sched_setaffinity(0, sizeof mine, &mine) != 0) peer_fail("start", "cannot bind a rank to a processor");
}

int peer_start_ranks(const peer_options_t* options, int (*main_of_rank)(int rank, void* argument), void* argument) {
  const int ranks = options->ranks;
  pid_t* children = calloc((size_t)ranks, sizeof *children);
  if (children == NULL) peer_fail("start", "out of memory");
  const pid_t parent = getpid();
  for (int rank = 0; rank < ranks; ++rank) {
    children[rank] = fork();
    if (children[rank] < 0) peer_fail("start", "cannot fork");
    if (children[rank] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) exit(1); /* it died before prctl */
      if (options->bind) bind_rank(rank);
      exit(main_of_rank(rank, argument));
    }
  }
  int failed = 0;
  for (int left = ranks; left > 0; --left) {
    int status = 0;
    const pid_t ended = wait(&status);
    for (int rank = 0; rank < ranks; ++rank) {
      if (children[rank] == ended) children[rank] = 0;
    }
    if ((WIFEXITED(status) && WEXITSTATUS(status) == 0) || failed) continue;
    failed = 1;
    for (int rank = 0; rank < ranks; ++rank) {
      if (children[rank] > 0) kill(children[rank], SIGKILL);
    }
  }
  free(children);
  return failed;
}
