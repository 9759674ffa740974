/* A convolution as a choice names it, and a choice of its engine as text. Needs no library and no header of CUDA.
 *
 * The key is role, shape and dtype, in one form that is printed and parsed byte for byte:
 *
 *   Weight Spec { batch: 512, height: 8, width: 8, channels: 256, kh: 3, kw: 3, out: 512, stride: 1, padding: 1 } bf16
 *
 * The sizes are those of x [batch height width channels] and w [out kh kw channels] whatever the role, so the three
 * convolutions of one layer differ in the first word alone: Forward gives y, Data the gradient of x, Weight that
 * of w. Everything else that cuDNN is told follows from the key: layout NHWC, no dilation, one group, alignment of
 * 16 bytes, sums in f32. */
#ifndef SX_CUDA_CONVOLUTION_H
#define SX_CUDA_CONVOLUTION_H

#include "../base/text.h"
#include "../ir/ir.h"

typedef enum sx_role { SX_ROLE_FORWARD, SX_ROLE_DATA, SX_ROLE_WEIGHT, SX_N_ROLES } sx_role;

typedef struct sx_convolution {
  sx_role role;
  int64_t batch, height, width, channels, kh, kw, out, stride, padding;
  sx_dtype dtype; /* SX_F32 or SX_BF16, of all three tensors */
} sx_convolution;

/* Height and width of y. */
int64_t sx_convolution_out_height(const sx_convolution *convolution);
int64_t sx_convolution_out_width(const sx_convolution *convolution);

/* NULL: every size is in its range, y is not empty, and no tensor has 2^63 bytes; else what is wrong. */
const char *sx_convolution_check(const sx_convolution *convolution);

void sx_convolution_print(sx_text *text, const sx_convolution *convolution);
/* Takes what sx_convolution_print gives and nothing else. NULL: read; else what was expected, and where. */
const char *sx_convolution_parse(sx_convolution *convolution, const char *text, sx_arena *arena);

/* An engine of cuDNN and its knobs, "engine 47 knobs 0=3 2=3 5=3 14=2": raw numbers, types ascending, each once;
 * "engine 0" for one without. A knob that is not named has the engine's own setting for the version. */
enum { SX_KNOBS_MAX = 64 };

typedef struct sx_knob_choice {
  int32_t type;
  int64_t value;
} sx_knob_choice;

typedef struct sx_engine {
  int64_t index;
  uint32_t n_knobs;
  sx_knob_choice knobs[SX_KNOBS_MAX];
} sx_engine;

void sx_engine_print(sx_text *text, const sx_engine *engine);
/* As sx_convolution_parse. */
const char *sx_engine_parse(sx_engine *engine, const char *text, sx_arena *arena);
bool sx_engine_equal(const sx_engine *a, const sx_engine *b);

#endif
