/* The twins of the functions of banyan.h, for profilers: a library that is loaded first (LD_PRELOAD) and defines
 * banyan_all_reduce sees every call of the program, and calls pbanyan_all_reduce to have it done. The functions of
 * banyan.h that wait for several requests do not call each other by their plain names. */
#ifndef BANYAN_PROFILING_H
#define BANYAN_PROFILING_H

#include <banyan/banyan.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

int pbanyan_get_version(void);
const char* pbanyan_result_text(banyan_result_t result);
const char* pbanyan_last_error(banyan_comm_t comm);
size_t pbanyan_type_size(banyan_type_t type);
banyan_result_t pbanyan_get_unique_id(banyan_unique_id_t* id);
banyan_result_t pbanyan_comm_init_rank(banyan_comm_t* comm, int size, banyan_unique_id_t id, int rank,
                                       const banyan_config_t* config);
banyan_result_t pbanyan_comm_init_url(banyan_comm_t* comm, const char* url, int size, int rank,
                                      const banyan_config_t* config);
banyan_result_t pbanyan_comm_init_env(banyan_comm_t* comm, const banyan_config_t* config);
banyan_result_t pbanyan_comm_split(banyan_comm_t comm, int color, int key, banyan_comm_t* result,
                                   const banyan_config_t* config);
banyan_result_t pbanyan_comm_shrink(banyan_comm_t comm, const int* excluded, int excluded_count, banyan_comm_t* result,
                                    const banyan_config_t* config);
banyan_result_t pbanyan_comm_agree(banyan_comm_t comm, int* flag);
banyan_result_t pbanyan_comm_grow(banyan_comm_t comm, int size, banyan_unique_id_t id, int rank, banyan_comm_t* result,
                                  const banyan_config_t* config);
banyan_result_t pbanyan_comm_finalize(banyan_comm_t comm);
banyan_result_t pbanyan_comm_destroy(banyan_comm_t comm);
banyan_result_t pbanyan_comm_abort(banyan_comm_t comm);
banyan_result_t pbanyan_comm_get_async_error(banyan_comm_t comm, banyan_result_t* error);
banyan_result_t pbanyan_comm_get_reroutes(banyan_comm_t comm, int* reroutes);
banyan_result_t pbanyan_comm_get_statistics(banyan_comm_t comm, const char* call, banyan_statistics_t* statistics);
banyan_result_t pbanyan_comm_count(banyan_comm_t comm, int* size);
banyan_result_t pbanyan_comm_user_rank(banyan_comm_t comm, int* rank);
banyan_result_t pbanyan_comm_get_name(banyan_comm_t comm, const char** name);
banyan_result_t pbanyan_comm_set_timeout(banyan_comm_t comm, double seconds);
banyan_result_t pbanyan_comm_dump(banyan_comm_t comm, const char* why);
banyan_result_t pbanyan_get_service_hints(const char** hints);
banyan_result_t pbanyan_mem_alloc(void** memory, size_t bytes);
banyan_result_t pbanyan_mem_free(void* memory);
banyan_result_t pbanyan_register(banyan_comm_t comm, void* memory, size_t bytes, void** handle);
banyan_result_t pbanyan_deregister(banyan_comm_t comm, void* handle);
banyan_result_t pbanyan_op_create_premul_sum(banyan_op_t* op, double factor, banyan_comm_t comm);
banyan_result_t pbanyan_op_create_feedback(banyan_op_t* op, banyan_op_kind_t kind, banyan_residual_t residual,
                                           banyan_comm_t comm);
banyan_result_t pbanyan_op_destroy(banyan_op_t op, banyan_comm_t comm);
banyan_result_t pbanyan_coded_type(const char* codec, banyan_type_t* type);
banyan_result_t pbanyan_residual_create(banyan_residual_t* residual, size_t count);
banyan_result_t pbanyan_residual_values(banyan_residual_t residual, float** values, size_t* count);
banyan_result_t pbanyan_residual_destroy(banyan_residual_t residual);
banyan_result_t pbanyan_all_reduce(const void* send, void* recv, size_t count, banyan_type_t type, banyan_op_t op,
                                   banyan_comm_t comm, banyan_request_t* request);
banyan_result_t pbanyan_reduce(const void* send, void* recv, size_t count, banyan_type_t type, banyan_op_t op, int root,
                               banyan_comm_t comm, banyan_request_t* request);
banyan_result_t pbanyan_broadcast(const void* send, void* recv, size_t count, banyan_type_t type, int root,
                                  banyan_comm_t comm, banyan_request_t* request);
banyan_result_t pbanyan_all_gather(const void* send, void* recv, size_t count, banyan_type_t type, banyan_comm_t comm,
                                   banyan_request_t* request);
banyan_result_t pbanyan_all_gather_v(const void* send, void* recv, const size_t* counts, const size_t* displacements,
                                     banyan_type_t type, banyan_comm_t comm, banyan_request_t* request);
banyan_result_t pbanyan_reduce_scatter(const void* send, void* recv, size_t count, banyan_type_t type, banyan_op_t op,
                                       banyan_comm_t comm, banyan_request_t* request);
banyan_result_t pbanyan_reduce_scatter_v(const void* send, void* recv, const size_t* counts, banyan_type_t type,
                                         banyan_op_t op, banyan_comm_t comm, banyan_request_t* request);
banyan_result_t pbanyan_all_to_all(const void* send, void* recv, size_t count, banyan_type_t type, banyan_comm_t comm,
                                   banyan_request_t* request);
banyan_result_t pbanyan_all_to_all_v(const void* send, const size_t* send_counts, const size_t* send_displacements,
                                     void* recv, const size_t* recv_counts, const size_t* recv_displacements,
                                     banyan_type_t type, banyan_comm_t comm, banyan_request_t* request);
banyan_result_t pbanyan_gather(const void* send, void* recv, size_t count, banyan_type_t type, int root,
                               banyan_comm_t comm, banyan_request_t* request);
banyan_result_t pbanyan_scatter(const void* send, void* recv, size_t count, banyan_type_t type, int root,
                                banyan_comm_t comm, banyan_request_t* request);
banyan_result_t pbanyan_barrier(banyan_comm_t comm, banyan_request_t* request);
banyan_result_t pbanyan_sparse_create(banyan_sparse_t* table, size_t rows, size_t width, banyan_type_t type,
                                      banyan_sparse_way_t way, banyan_comm_t comm);
banyan_result_t pbanyan_sparse_all_reduce(const int64_t* rows, const float* values, size_t count, banyan_sparse_t table,
                                          const int64_t** sum_rows, const float** sum_values, size_t* sum_count);
banyan_result_t pbanyan_sparse_residual(banyan_sparse_t table, float** values, size_t* count);
banyan_result_t pbanyan_sparse_last_call(banyan_sparse_t table, banyan_sparse_way_t* way, uint64_t* bytes);
banyan_result_t pbanyan_sparse_destroy(banyan_sparse_t table);
banyan_result_t pbanyan_send(const void* send, size_t count, banyan_type_t type, int peer, banyan_comm_t comm,
                             banyan_request_t* request);
banyan_result_t pbanyan_recv(void* recv, size_t count, banyan_type_t type, int peer, banyan_comm_t comm,
                             banyan_request_t* request);
banyan_result_t pbanyan_send_tagged(const void* send, size_t count, banyan_type_t type, int peer, uint32_t tag,
                                    banyan_comm_t comm, banyan_request_t* request);
banyan_result_t pbanyan_recv_tagged(void* recv, size_t count, banyan_type_t type, int peer, uint32_t tag, int* source,
                                    banyan_comm_t comm, banyan_request_t* request);
banyan_result_t pbanyan_group_start(void);
banyan_result_t pbanyan_group_end(void);
banyan_result_t pbanyan_test(banyan_request_t* request);
banyan_result_t pbanyan_wait(banyan_request_t* request);
banyan_result_t pbanyan_wait_for(banyan_request_t* request, double seconds);
banyan_result_t pbanyan_wait_any(banyan_request_t* requests, int count, int* index);
banyan_result_t pbanyan_wait_all(banyan_request_t* requests, int count);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif /* BANYAN_PROFILING_H */
