/* Magnitude-aware linear attention from C: attention.h without templates and exceptions. Its causal
 * form is in causal_c.h, its two halves for tokens in several places in split_c.h.
 *
 * How this interface grows without breaking programs that are already built. The structs that may
 * grow begin with `struct_size`, their size in the header the caller was compiled with. Fields are
 * only ever added at the end, and zero in a new field means what happened before it existed. So an
 * old program runs with a new library (the fields it lacks count as zero), and a new program with
 * an old library as long as it leaves the fields unknown there at zero; otherwise the call is
 * refused and says so. mala_tensor, mala_buffer, mala_integers, mala_rope and mala_causal_state
 * stay as they are forever. Fields for choices are plain integers and not enums: an unknown value
 * must arrive whole to be refused.
 *
 * All functions may be called from several threads at once, on different outputs and buffers.
 */
#ifndef MALA_KERNELS_ATTENTION_C_H
#define MALA_KERNELS_ATTENTION_C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mala_status {
  MALA_OK = 0,
  MALA_INVALID_ARGUMENT = 1, /* nothing was written; mala_last_error() says what to change */
  MALA_OUT_OF_MEMORY = 2,
  MALA_INTERNAL = 3 /* a fault of the library */
} mala_status;

/* The message of the last call of this thread that failed, "" before the first:
 * "[function] what came, what is needed, what to try". Valid until the thread's next failure. */
const char* mala_last_error(void);

/* "major.minor.patch" of the library in use. */
const char* mala_version(void);

/* bfloat16 and float16 are read from and written to memory; all sums are float. */
enum mala_dtype { MALA_FLOAT32 = 0, MALA_FLOAT64 = 1, MALA_BFLOAT16 = 2, MALA_FLOAT16 = 3 };

enum mala_rule { MALA_RULE_MALA = 0, MALA_RULE_LINEAR = 1, MALA_RULE_INLINE = 2 };

/* Where the rotation stands: Norm in attention.h says which is for what. The default is published,
 * but balanced for the causal form with the rule mala. */
enum mala_norm {
  MALA_NORM_DEFAULT = 0,
  MALA_NORM_PUBLISHED = 1,
  MALA_NORM_PRINTED = 2,
  MALA_NORM_BALANCED = 3
};

enum mala_feature {
  MALA_FEATURE_ELU1 = 0,
  MALA_FEATURE_RELU = 1,
  MALA_FEATURE_EXP = 2,
  MALA_FEATURE_IDENTITY = 3
};

enum mala_rope_kind {
  MALA_ROPE_NONE = 0,
  MALA_ROPE_LINE = 1, /* text and audio: token n has position offset + n */
  MALA_ROPE_GRID = 2, /* images, row by row */
  MALA_ROPE_TABLE = 3 /* the caller's cos and sin */
};

/* (batch, heads, tokens, dim), whatever order they have in memory: strides count elements. Inputs
 * are only read. `data` 0 means an absent tensor, where one may be absent. */
typedef struct mala_tensor {
  void* data;
  int64_t sizes[4];
  int64_t strides[4];
} mala_tensor;

typedef struct mala_buffer {
  void* data;
  int64_t bytes;
} mala_buffer;

/* Integers, only read. `data` and `count` 0 mean an absent list, where one may be absent. */
typedef struct mala_integers {
  const int64_t* data;
  int64_t count;
} mala_integers;

/* How tokens are rotated; see Rope in attention.h. */
typedef struct mala_rope {
  int64_t kind;     /* enum mala_rope_kind */
  int64_t offset;   /* line and grid: the position of the first token */
  int64_t width;    /* grid: tokens in a row of the image */
  const float* cos; /* table: (table_rows, D / 2), and sin likewise */
  const float* sin;
  int64_t table_rows, table_stride;
} mala_rope;

/* Begin with mala_options_default(). */
typedef struct mala_options {
  size_t struct_size;
  int32_t rule, norm, feature; /* enum mala_rule and so on */
  int32_t key_mean;            /* 0: kappa = 1 */
  double scale;                /* 0: D^(-1/2) */
  double eps;
  mala_rope q_rope, k_rope;
} mala_options;

/* q (B, H, N, D), k (B, Hk, M, D), v (B, Hk, M, E); Hk divides H, and query head h uses head
 * h * Hk / H of k and v. local and gate (B, H, N, E) may be absent:
 * out = (attention + local) * gate. D and E are multiples of 8 up to 256.
 *
 * Which tokens belong together, where it is not all of a batch entry: either the number of keys
 * that count in each entry, or where sequences begin that are packed into a batch of 1. Keys beyond
 * a count are never read, and their gradients are zero. RoPE restarts with each sequence. */
typedef struct mala_attention_inputs {
  size_t struct_size;
  int64_t dtype; /* enum mala_dtype, of all tensors of the call */
  mala_tensor q, k, v, local, gate;
  mala_integers key_counts;           /* (B), each 1 to M */
  mala_integers q_offsets, k_offsets; /* (S + 1) each, rising from 0 to N, and to M */
  mala_integers q_widths, k_widths;   /* (S), of each image, in place of mala_rope.width */
} mala_attention_inputs;

/* The shapes of the inputs; local and gate exactly where the inputs have them. */
typedef struct mala_attention_gradients {
  size_t struct_size;
  mala_tensor q, k, v, local, gate;
} mala_attention_gradients;

/* The published operator: rule mala, elu1, mean of keys, no rotation. Inline, since the size must
 * be that of the caller's header. */
static inline mala_options mala_options_default(void) {
  mala_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.key_mean = 1;
  options.eps = 1e-6;
  return options;
}

/* A dense (B, H, N, D) tensor, dim fastest. */
static inline mala_tensor mala_dense(void* data, int64_t batch, int64_t heads, int64_t tokens,
                                     int64_t dim) {
  const mala_tensor tensor = {
      data, {batch, heads, tokens, dim}, {heads * tokens * dim, tokens * dim, dim, 1}};
  return tensor;
}

/* Bytes of the state that forward leaves for backward; it is float, or double for float64. There is
 * one for each sequence (B, or S where they are packed) and each of the Hk heads. */
mala_status mala_attention_state_bytes(const mala_attention_inputs* inputs, int64_t* bytes);

/* Bytes of scratch that forward and backward need with the threads there are now; grows with
 * B * H and the threads, not with the tokens. */
mala_status mala_attention_scratch_bytes(const mala_attention_inputs* inputs,
                                         const mala_options* options, int64_t* bytes);

/* Writes out (B, H, N, E) and the state. Neither may overlap an input. */
mala_status mala_attention_forward(const mala_attention_inputs* inputs, const mala_options* options,
                                   const mala_tensor* out, mala_buffer state, mala_buffer scratch);

/* Writes the gradients from that of out and the state that forward left. */
mala_status mala_attention_backward(const mala_attention_inputs* inputs,
                                    const mala_options* options, const mala_tensor* out_gradient,
                                    mala_buffer state, const mala_attention_gradients* gradients,
                                    mala_buffer scratch);

#ifdef __cplusplus
}
#endif

#endif
