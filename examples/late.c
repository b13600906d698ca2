/* A program with a fault: in its 17th call, the last rank comes late. The others end with an error that names it, and
 * all write down their last calls, which `banyan doctor` reads:
 *
 *   BANYAN_RECORDER_DIR=records BANYAN_TIMEOUT=2 banyan run -n 4 -- ./late
 *   banyan doctor records
 */
#include <banyan/banyan.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
  banyan_comm_t comm;
  if (banyan_comm_init_env(&comm, NULL) != BANYAN_SUCCESS) {
    fprintf(stderr, "%s\n", banyan_last_error(NULL));
    return 1;
  }
  int rank, size;
  banyan_comm_user_rank(comm, &rank);
  banyan_comm_count(comm, &size);

  float values[1024];
  for (int i = 0; i < 1024; ++i) values[i] = (float)(rank + i);
  banyan_result_t result = BANYAN_SUCCESS;
  for (int call = 1; call <= 20 && result == BANYAN_SUCCESS; ++call) {
    if (call == 17 && rank == size - 1) sleep(60); /* the fault */
    result = banyan_all_reduce(values, values, 1024, BANYAN_FLOAT32, BANYAN_SUM, comm, NULL);
  }
  if (result != BANYAN_SUCCESS) fprintf(stderr, "rank %d: %s\n", rank, banyan_last_error(comm));
  banyan_comm_destroy(comm);
  return result == BANYAN_SUCCESS ? 0 : 1;
}
