/* The causal form from C: causal.h without templates and exceptions. Token t sees the keys up to
 * and including its own, and those of the state, which stands for what came before the call. */
#ifndef MALA_KERNELS_CAUSAL_C_H
#define MALA_KERNELS_CAUSAL_C_H

#include "mala/kernels/attention_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What earlier tokens left behind, for each sequence (B, or S where they are packed) and each of
 * the Hk heads of keys and values. At the beginning sums and counts are zeros. */
typedef struct mala_causal_state {
  mala_buffer sums;   /* double, whatever the dtype of the tensors */
  mala_buffer counts; /* int64_t, one for each sequence: the keys in the sums */
} mala_causal_state;

/* What flows back into a call: the gradient of out, and that of the sums it left (zeros: none). */
typedef struct mala_causal_output_gradients {
  size_t struct_size;
  mala_tensor out;
  mala_buffer after;
} mala_causal_output_gradients;

/* What flows out of it, as in mala_attention_gradients, and the gradient of the sums it began with
 * (zeros: not wanted). */
typedef struct mala_causal_input_gradients {
  size_t struct_size;
  mala_tensor q, k, v, local, gate;
  mala_buffer before;
} mala_causal_input_gradients;

/* In all functions N = M; `before` may be null, or hold zeros, where every sequence begins with the
 * call; k_offsets may be left out. Token n of a sequence has position offset + count + n, in a
 * table row count + n. */

/* Bytes of the two buffers of a state. */
mala_status mala_causal_state_bytes(const mala_attention_inputs* inputs, int64_t* sums_bytes,
                                    int64_t* counts_bytes);

/* Bytes of scratch: forward's grows with the threads alone, backward's with N as well. */
mala_status mala_causal_forward_scratch_bytes(const mala_attention_inputs* inputs,
                                              const mala_options* options,
                                              const mala_causal_state* before, int64_t* bytes);
mala_status mala_causal_backward_scratch_bytes(const mala_attention_inputs* inputs,
                                               const mala_options* options,
                                               const mala_causal_state* before, int64_t* bytes);

/* Writes out (B, H, N, E) and the state after the last token, which may be null where it is not
 * wanted, and the very memory of the state before. */
mala_status mala_causal_forward(const mala_attention_inputs* inputs, const mala_options* options,
                                const mala_causal_state* before, const mala_tensor* out,
                                const mala_causal_state* after, mala_buffer scratch);

mala_status mala_causal_backward(const mala_attention_inputs* inputs, const mala_options* options,
                                 const mala_causal_state* before,
                                 const mala_causal_output_gradients* from,
                                 const mala_causal_input_gradients* to, mala_buffer scratch);

/* One token for each of B sequences, whose states are brought up to date in place. The inputs have
 * no lengths. */
mala_status mala_causal_step(const mala_attention_inputs* inputs, const mala_options* options,
                             const mala_tensor* out, const mala_causal_state* state);

#ifdef __cplusplus
}
#endif

#endif
