/* A profiler as a user writes one: it sees the calls of a program without being compiled into it. */
#include <banyan/profiling.h>
#include <stdio.h>

banyan_result_t banyan_all_reduce(const void* send, void* recv, size_t count, banyan_type_t type, banyan_op_t op,
                                  banyan_comm_t comm, banyan_request_t* request) {
  fprintf(stderr, "profiler: all_reduce of %lu bytes\n", (unsigned long)(count * pbanyan_type_size(type)));
  return pbanyan_all_reduce(send, recv, count, type, op, comm, request);
}
