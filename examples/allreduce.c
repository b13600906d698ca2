/* Every rank contributes a vector; all get the mean. Run it with
 *
 *   banyan run -n 4 -- ./build/examples/allreduce
 *
 * or by torchrun, srun or mpirun. */
#include <banyan/banyan.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 1000000

static void check(banyan_result_t result, const char* what) {
  if (result == BANYAN_SUCCESS) return;
  fprintf(stderr, "%s: %s: %s\n", what, banyan_result_text(result), banyan_last_error(NULL));
  exit(1);
}

int main(void) {
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.timeout = 30; /* seconds without progress */
  banyan_comm_t comm;
  check(banyan_comm_init_env(&comm, &config), "joining");
  int rank, size;
  check(banyan_comm_user_rank(comm, &rank), "rank");
  check(banyan_comm_count(comm, &size), "size");

  /* Memory that the other ranks of this host read directly; malloc works too. */
  void* memory;
  check(banyan_mem_alloc(&memory, COUNT * sizeof(float)), "memory");
  float* values = memory;
  for (int i = 0; i < COUNT; ++i) values[i] = (float)(rank + i % 7);

  check(banyan_all_reduce(values, values, COUNT, BANYAN_FLOAT32, BANYAN_AVG, comm, NULL), "allreduce");

  const float expected = (float)(size - 1) / 2 + 3;
  if (values[3] != expected) {
    fprintf(stderr, "rank %d: got %g, expected %g\n", rank, values[3], expected);
    return 1;
  }
  if (rank == 0) printf("%d ranks agree: the mean at 3 is %g\n", size, values[3]);
  check(banyan_comm_destroy(comm), "leaving");
  check(banyan_mem_free(memory), "memory");
  return 0;
}
