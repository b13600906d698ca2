/* The twins of the functions of banyan.h, for profilers: a library that is loaded first (LD_PRELOAD) and defines
 * banyan_all_reduce sees every call of the program, and calls pbanyan_all_reduce to have it done. The functions of
 * banyan.h that wait for several requests do not call each other by their plain names. Compilers that are compatible
 * with GCC know __typeof__ in every version of C and C++. */
#ifndef BANYAN_PROFILING_H
#define BANYAN_PROFILING_H

#include <banyan/banyan.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Declares the twin of a function, which has the same arguments and the same result. */
#define BANYAN_TWIN(function) __typeof__(function) p##function

BANYAN_TWIN(banyan_get_version);
BANYAN_TWIN(banyan_result_text);
BANYAN_TWIN(banyan_last_error);
BANYAN_TWIN(banyan_type_size);
BANYAN_TWIN(banyan_get_unique_id);
BANYAN_TWIN(banyan_comm_init_rank);
BANYAN_TWIN(banyan_comm_init_url);
BANYAN_TWIN(banyan_comm_init_env);
BANYAN_TWIN(banyan_comm_split);
BANYAN_TWIN(banyan_comm_shrink);
BANYAN_TWIN(banyan_comm_agree);
BANYAN_TWIN(banyan_comm_grow);
BANYAN_TWIN(banyan_comm_finalize);
BANYAN_TWIN(banyan_comm_destroy);
BANYAN_TWIN(banyan_comm_abort);
BANYAN_TWIN(banyan_comm_get_async_error);
BANYAN_TWIN(banyan_comm_get_reroutes);
BANYAN_TWIN(banyan_comm_get_statistics);
BANYAN_TWIN(banyan_comm_count);
BANYAN_TWIN(banyan_comm_user_rank);
BANYAN_TWIN(banyan_comm_get_name);
BANYAN_TWIN(banyan_comm_set_timeout);
BANYAN_TWIN(banyan_comm_dump);
BANYAN_TWIN(banyan_get_service_hints);
BANYAN_TWIN(banyan_mem_alloc);
BANYAN_TWIN(banyan_mem_free);
BANYAN_TWIN(banyan_register);
BANYAN_TWIN(banyan_deregister);
BANYAN_TWIN(banyan_op_create_premul_sum);
BANYAN_TWIN(banyan_op_create_feedback);
BANYAN_TWIN(banyan_op_destroy);
BANYAN_TWIN(banyan_coded_type);
BANYAN_TWIN(banyan_residual_create);
BANYAN_TWIN(banyan_residual_values);
BANYAN_TWIN(banyan_residual_destroy);
BANYAN_TWIN(banyan_all_reduce);
BANYAN_TWIN(banyan_reduce);
BANYAN_TWIN(banyan_broadcast);
BANYAN_TWIN(banyan_all_gather);
BANYAN_TWIN(banyan_all_gather_v);
BANYAN_TWIN(banyan_reduce_scatter);
BANYAN_TWIN(banyan_reduce_scatter_v);
BANYAN_TWIN(banyan_all_to_all);
BANYAN_TWIN(banyan_all_to_all_v);
BANYAN_TWIN(banyan_gather);
BANYAN_TWIN(banyan_scatter);
BANYAN_TWIN(banyan_barrier);
BANYAN_TWIN(banyan_sparse_create);
BANYAN_TWIN(banyan_sparse_all_reduce);
BANYAN_TWIN(banyan_sparse_residual);
BANYAN_TWIN(banyan_sparse_last_call);
BANYAN_TWIN(banyan_sparse_destroy);
BANYAN_TWIN(banyan_send);
BANYAN_TWIN(banyan_recv);
BANYAN_TWIN(banyan_send_tagged);
BANYAN_TWIN(banyan_recv_tagged);
BANYAN_TWIN(banyan_group_start);
BANYAN_TWIN(banyan_group_end);
BANYAN_TWIN(banyan_test);
BANYAN_TWIN(banyan_wait);
BANYAN_TWIN(banyan_wait_for);
BANYAN_TWIN(banyan_wait_any);
BANYAN_TWIN(banyan_wait_all);

#undef BANYAN_TWIN

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif /* BANYAN_PROFILING_H */
