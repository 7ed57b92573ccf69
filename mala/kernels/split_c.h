/* Attention in two halves from C, for tokens that are spread over several callers: split.h without
 * templates and exceptions. Each caller sums its own keys, the callers add their states and key
 * counts, and each applies the total to its own queries; backward runs the same way home. */
#ifndef MALA_KERNELS_SPLIT_C_H
#define MALA_KERNELS_SPLIT_C_H

#include "mala/kernels/attention_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The keys of one caller: k (B, Hk, M, D), v (B, Hk, M, E); lists as in mala_attention_inputs. */
typedef struct mala_keys_inputs {
  size_t struct_size;
  int64_t dtype; /* enum mala_dtype */
  mala_tensor k, v;
  mala_integers key_counts, k_offsets, k_widths;
} mala_keys_inputs;

typedef struct mala_keys_gradients {
  size_t struct_size;
  mala_tensor k, v;
} mala_keys_gradients;

/* The queries of one caller: q (B, H, N, D); local and gate (B, H, N, E) may be absent. */
typedef struct mala_queries_inputs {
  size_t struct_size;
  int64_t dtype; /* enum mala_dtype */
  mala_tensor q, local, gate;
  mala_integers q_offsets, q_widths;
} mala_queries_inputs;

/* The sum of the states of all callers, with the number of keys in each sequence, and of the heads
 * of keys and values. */
typedef struct mala_total_state {
  size_t struct_size;
  mala_buffer sums; /* float, or double for float64 */
  mala_integers key_counts;
  int64_t heads;
} mala_total_state;

/* The shapes of the inputs, and the gradient of the state's sums. */
typedef struct mala_queries_gradients {
  size_t struct_size;
  mala_tensor q, local, gate;
  mala_buffer state;
} mala_queries_gradients;

/* Bytes of the state of these keys. */
mala_status mala_keys_state_bytes(const mala_keys_inputs* inputs, int64_t* bytes);

/* Bytes of scratch that both directions need with the threads there are now. `value_dim` is E. */
mala_status mala_keys_scratch_bytes(const mala_keys_inputs* inputs, const mala_options* options,
                                    int64_t* bytes);
mala_status mala_queries_scratch_bytes(const mala_queries_inputs* inputs,
                                       const mala_options* options, const mala_total_state* state,
                                       int64_t value_dim, int64_t* bytes);

/* Writes the sums over these keys. */
mala_status mala_keys_forward(const mala_keys_inputs* inputs, const mala_options* options,
                              mala_buffer state, mala_buffer scratch);

/* Writes out (B, H, N, E) from the sums over the keys of all callers. */
mala_status mala_queries_forward(const mala_queries_inputs* inputs, const mala_options* options,
                                 const mala_total_state* state, const mala_tensor* out,
                                 mala_buffer scratch);

mala_status mala_queries_backward(const mala_queries_inputs* inputs, const mala_options* options,
                                  const mala_total_state* state, const mala_tensor* out_gradient,
                                  const mala_queries_gradients* gradients, mala_buffer scratch);

/* `state_gradient` is the sum of those of all callers. */
mala_status mala_keys_backward(const mala_keys_inputs* inputs, const mala_options* options,
                               mala_buffer state_gradient, const mala_keys_gradients* gradients,
                               mala_buffer scratch);

#ifdef __cplusplus
}
#endif

#endif
