/* The attention weights of eight tokens, from C: where v is the identity, out is the weights. */
#include <stdio.h>
#include <stdlib.h>

#include "mala/kernels/attention_c.h"

enum { kTokens = 8, kDim = 8 };

static void must(mala_status status) {
  if (status == MALA_OK) return;
  fprintf(stderr, "%s\n", mala_last_error());
  exit(1);
}

int main(void) {
  static float q[kTokens][kDim], k[kTokens][kDim], v[kTokens][kTokens], out[kTokens][kTokens];
  for (int i = 0; i < kTokens; ++i) {
    v[i][i] = 1;
    for (int j = 0; j < kDim; ++j) q[i][j] = k[i][j] = (float)((i + 1) * (j + 2) % 7) - 3;
  }

  mala_attention_inputs inputs = {.struct_size = sizeof inputs,
                                  .dtype = MALA_FLOAT32,
                                  .q = mala_dense(q, 1, 1, kTokens, kDim),
                                  .k = mala_dense(k, 1, 1, kTokens, kDim),
                                  .v = mala_dense(v, 1, 1, kTokens, kTokens)};
  const mala_tensor weights = mala_dense(out, 1, 1, kTokens, kTokens);
  mala_options options = mala_options_default();
  options.norm = MALA_NORM_BALANCED;
  options.q_rope.kind = options.k_rope.kind = MALA_ROPE_LINE;

  mala_buffer state = {0}, scratch = {0};
  must(mala_attention_state_bytes(&inputs, &state.bytes));
  must(mala_attention_scratch_bytes(&inputs, &options, &scratch.bytes));
  state.data = malloc((size_t)state.bytes);
  scratch.data = malloc((size_t)scratch.bytes);
  must(mala_attention_forward(&inputs, &options, &weights, state, scratch));

  printf("mala %s, weights of query i for key j:\n", mala_version());
  for (int i = 0; i < kTokens; ++i) {
    float sum = 0;
    for (int j = 0; j < kTokens; ++j) printf("%7.3f", out[i][j]), sum += out[i][j];
    printf("   sum %.4f\n", sum);
  }

  inputs.q.sizes[3] = inputs.k.sizes[3] = 7;
  if (mala_attention_forward(&inputs, &options, &weights, state, scratch) != MALA_OK) {
    printf("refused: %s\n", mala_last_error());
  }
  free(state.data);
  free(scratch.data);
}
