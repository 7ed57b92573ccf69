/* Keys in two places, from C: each sums its own, and the sums of both are those of all keys. */
#include <stdio.h>
#include <stdlib.h>

#include "mala/kernels/split_c.h"

enum { kTokens = 24, kFirst = 10, kDim = 8, kState = kDim * kDim + 2 * kDim + kDim };

static void must(mala_status status) {
  if (status == MALA_OK) return;
  fprintf(stderr, "%s\n", mala_last_error());
  exit(1);
}

/* The sums over `tokens` keys, which are their own values; the first has position `begin`. */
static void sum_keys(float (*k)[kDim], int begin, int tokens, float* sums) {
  const mala_tensor own = mala_dense(k[begin], 1, 1, tokens, kDim);
  const mala_keys_inputs keys = {
      .struct_size = sizeof keys, .dtype = MALA_FLOAT32, .k = own, .v = own};
  mala_options options = mala_options_default();
  options.k_rope.kind = MALA_ROPE_LINE;
  options.k_rope.offset = begin;
  mala_buffer state = {sums, kState * sizeof(float)}, scratch = {0};
  must(mala_keys_scratch_bytes(&keys, &options, &scratch.bytes));
  scratch.data = malloc((size_t)scratch.bytes);
  must(mala_keys_forward(&keys, &options, state, scratch));
  free(scratch.data);
}

/* What each query takes from the sums over all keys. */
static void apply(float (*q)[kDim], float* sums, float (*out)[kDim]) {
  const int64_t count = kTokens;
  const mala_queries_inputs queries = {.struct_size = sizeof queries,
                                       .dtype = MALA_FLOAT32,
                                       .q = mala_dense(q, 1, 1, kTokens, kDim)};
  const mala_total_state state = {sizeof state, {sums, kState * sizeof(float)}, {&count, 1}, 1};
  const mala_tensor result = mala_dense(out, 1, 1, kTokens, kDim);
  mala_options options = mala_options_default();
  options.q_rope.kind = MALA_ROPE_LINE;
  mala_buffer scratch = {0};
  must(mala_queries_scratch_bytes(&queries, &options, &state, kDim, &scratch.bytes));
  scratch.data = malloc((size_t)scratch.bytes);
  must(mala_queries_forward(&queries, &options, &state, &result, scratch));
  free(scratch.data);
}

int main(void) {
  static float x[kTokens][kDim], whole[kTokens][kDim], shards[kTokens][kDim];
  float all[kState], first[kState], second[kState], most = 0;
  for (int i = 0; i < kTokens * kDim; ++i) x[i / kDim][i % kDim] = (float)(i * 37 % 101) / 50 - 1;
  sum_keys(x, 0, kTokens, all);
  sum_keys(x, 0, kFirst, first);
  sum_keys(x, kFirst, kTokens - kFirst, second);
  for (int i = 0; i < kState; ++i) first[i] += second[i];
  apply(x, all, whole);
  apply(x, first, shards);
  for (int i = 0; i < kTokens * kDim; ++i) {
    const float apart = whole[i / kDim][i % kDim] - shards[i / kDim][i % kDim];
    most = apart > most ? apart : -apart > most ? -apart : most;
  }
  printf("%d and %d keys, largest difference %.1e\n", kFirst, kTokens - kFirst, most);
}
