/* Keys of convolutions and engines as text: one spelling each, so that equal choices are equal bytes. */
#include "convolution.h"

#include <inttypes.h>
#include <string.h>

static const char *const ROLES[SX_N_ROLES] = {"Forward", "Data", "Weight"};

/* The sizes of a key in the order of its text. */
typedef struct size_row {
  const char *before; /* the text that leads to the number */
  size_t offset;
  int64_t least;
} size_row;

#define SIZE(before, member, least) \
  { before, offsetof(sx_convolution, member), least }
static const size_row SIZES[] = {
    SIZE(" Spec { batch: ", batch, 1), SIZE(", height: ", height, 1), SIZE(", width: ", width, 1),
    SIZE(", channels: ", channels, 1), SIZE(", kh: ", kh, 1),         SIZE(", kw: ", kw, 1),
    SIZE(", out: ", out, 1),           SIZE(", stride: ", stride, 1), SIZE(", padding: ", padding, 0)};
enum { N_SIZES = sizeof SIZES / sizeof *SIZES };

/* cuDNN's descriptors take paddings and strides of 32 bits; a tensor's size along an axis has them too. */
#define SIZE_MOST INT32_MAX

static int64_t size_at(const sx_convolution *convolution, const size_row *row) {
  int64_t size;
  memcpy(&size, (const char *)convolution + row->offset, sizeof size);
  return size;
}

/* ---- sizes -------------------------------------------------------------------------------------- */

static int64_t out_size(int64_t in, int64_t kernel, int64_t stride, int64_t padding) {
  int64_t room = in + 2 * padding - kernel;
  return room < 0 ? 0 : room / stride + 1;
}

int64_t sx_convolution_out_height(const sx_convolution *c) { return out_size(c->height, c->kh, c->stride, c->padding); }
int64_t sx_convolution_out_width(const sx_convolution *c) { return out_size(c->width, c->kw, c->stride, c->padding); }

static bool fits(int64_t a, int64_t b, int64_t c, int64_t d) {
  int64_t product = 8; /* more than the bytes of an element */
  const int64_t factors[] = {a, b, c, d};
  for (size_t i = 0; i < 4; i++)
    if (__builtin_mul_overflow(product, factors[i], &product)) return false;
  return true;
}

const char *sx_convolution_check(const sx_convolution *c) {
  for (size_t i = 0; i < N_SIZES; i++) {
    int64_t size = size_at(c, &SIZES[i]);
    if (size < SIZES[i].least) return SIZES[i].least ? "a size below 1" : "a padding below 0";
    if (size > SIZE_MOST) return "a size above 2147483647";
  }
  if (c->role >= SX_N_ROLES) return "an unknown role";
  if (c->dtype != SX_F32 && c->dtype != SX_BF16) return "a dtype that is neither f32 nor bf16";
  int64_t height = sx_convolution_out_height(c), width = sx_convolution_out_width(c);
  if (!height || !width) return "a kernel larger than the padded input";
  if (!fits(c->batch, c->height, c->width, c->channels) || !fits(c->out, c->kh, c->kw, c->channels) ||
      !fits(c->batch, height, width, c->out))
    return "a tensor of 2^63 bytes or more";
  return NULL;
}

/* ---- strict reading ----------------------------------------------------------------------------- */

typedef struct scanner {
  const char *begin, *at;
} scanner;

static bool take(scanner *s, const char *literal) {
  size_t n = strlen(literal);
  if (strncmp(s->at, literal, n) != 0) return false;
  s->at += n;
  return true;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* The one spelling of a number: no sign but -, no leading zero, no -0. */
static bool take_number(scanner *s, int64_t *value) {
  const char *at = s->at;
  bool negative = *at == '-';
  at += negative;
  if (!is_digit(*at) || (*at == '0' && (negative || is_digit(at[1])))) return false;
  int64_t read = 0;
  for (; is_digit(*at); at++)
    if (__builtin_mul_overflow(read, 10, &read) || __builtin_sub_overflow(read, *at - '0', &read)) return false;
  if (!negative && __builtin_sub_overflow(0, read, &read)) return false;
  *value = read;
  s->at = at;
  return true;
}

static const char *expected(const scanner *s, const char *what, sx_arena *arena) {
  return sx_format(arena, "expected %s at character %td", what, s->at - s->begin + 1);
}

/* ---- keys --------------------------------------------------------------------------------------- */

void sx_convolution_print(sx_text *text, const sx_convolution *convolution) {
  sx_text_add(text, ROLES[convolution->role]);
  for (size_t i = 0; i < N_SIZES; i++)
    sx_text_addf(text, "%s%" PRId64, SIZES[i].before, size_at(convolution, &SIZES[i]));
  sx_text_addf(text, " } %s", sx_dtype_name(convolution->dtype));
}

const char *sx_convolution_parse(sx_convolution *convolution, const char *text, sx_arena *arena) {
  scanner s = {text, text};
  sx_convolution read = {.role = SX_N_ROLES};
  for (int role = 0; role < SX_N_ROLES && read.role == SX_N_ROLES; role++)
    if (take(&s, ROLES[role])) read.role = (sx_role)role;
  if (read.role == SX_N_ROLES) return expected(&s, "Forward, Data or Weight", arena);
  for (size_t i = 0; i < N_SIZES; i++) {
    int64_t size;
    if (!take(&s, SIZES[i].before)) return expected(&s, sx_format(arena, "\"%s\"", SIZES[i].before), arena);
    if (!take_number(&s, &size)) return expected(&s, "a number", arena);
    memcpy((char *)&read + SIZES[i].offset, &size, sizeof size);
  }
  if (!take(&s, " } ")) return expected(&s, "\" } \"", arena);
  if (!sx_dtype_parse(s.at, &read.dtype)) return expected(&s, "f32 or bf16", arena);
  const char *wrong = sx_convolution_check(&read);
  if (wrong) return wrong;
  *convolution = read;
  return NULL;
}

/* ---- engines ------------------------------------------------------------------------------------ */

void sx_engine_print(sx_text *text, const sx_engine *engine) {
  sx_text_addf(text, "engine %" PRId64, engine->index);
  if (engine->n_knobs) sx_text_add(text, " knobs");
  for (uint32_t i = 0; i < engine->n_knobs; i++)
    sx_text_addf(text, " %" PRId32 "=%" PRId64, engine->knobs[i].type, engine->knobs[i].value);
}

static const char *parse_knob(scanner *s, sx_engine *engine, sx_arena *arena) {
  int64_t type, value;
  const char *begin = s->at;
  if (engine->n_knobs == SX_KNOBS_MAX) return "an engine has at most 64 knobs";
  if (!take_number(s, &type) || type < 0 || type > INT32_MAX) {
    s->at = begin;
    return expected(s, "the number of a knob", arena);
  }
  if (engine->n_knobs && type <= engine->knobs[engine->n_knobs - 1].type) {
    s->at = begin;
    return expected(s, "a knob above the one before", arena);
  }
  if (!take(s, "=")) return expected(s, "\"=\"", arena);
  if (!take_number(s, &value)) return expected(s, "the value of a knob", arena);
  engine->knobs[engine->n_knobs++] = (sx_knob_choice){(int32_t)type, value};
  return NULL;
}

const char *sx_engine_parse(sx_engine *engine, const char *text, sx_arena *arena) {
  scanner s = {text, text};
  sx_engine read = {0};
  if (!take(&s, "engine ")) return expected(&s, "\"engine \"", arena);
  if (!take_number(&s, &read.index) || read.index < 0) {
    s.at = text + strlen("engine ");
    return expected(&s, "the number of an engine", arena);
  }
  if (take(&s, " knobs")) do {
      if (!take(&s, " ")) return expected(&s, "\" \" and a knob", arena);
      const char *wrong = parse_knob(&s, &read, arena);
      if (wrong) return wrong;
    } while (*s.at);
  if (*s.at) return expected(&s, "\" knobs\" or the end", arena);
  *engine = read;
  return NULL;
}

bool sx_engine_equal(const sx_engine *a, const sx_engine *b) {
  if (a->index != b->index || a->n_knobs != b->n_knobs) return false;
  for (uint32_t i = 0; i < a->n_knobs; i++)
    if (a->knobs[i].type != b->knobs[i].type || a->knobs[i].value != b->knobs[i].value) return false;
  return true;
}
