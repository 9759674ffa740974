#include "attention_graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct writing {
  char text[8192];
  size_t n;
  int id;
} writing;

/* Adds a line; gives the number of its node. */
__attribute__((format(printf, 2, 3))) static int add(writing *w, const char *format, ...) {
  va_list arguments;
  w->n += (size_t)snprintf(w->text + w->n, sizeof w->text - w->n, "%%%d = ", w->id);
  va_start(arguments, format);
  w->n += (size_t)vsnprintf(w->text + w->n, sizeof w->text - w->n, format, arguments);
  va_end(arguments);
  w->n += (size_t)snprintf(w->text + w->n, sizeof w->text - w->n, "\n");
  if (w->n >= sizeof w->text) abort();
  return w->id++;
}

static int add_operand(writing *w, const char *name, const attention_shape *c, int n) {
  int x = add(w, "input {name \"%s\"} : f32 [%d %d %d %d]", name, c->b, n, c->h, c->d);
  return add(w, "transpose %%%d {perm [0 2 1 3]} : f32 [%d %d %d %d]", x, c->b, c->h, n, c->d);
}

typedef struct shapes {
  char wide[48], row[48], column[48];
} shapes;

static shapes shapes_of(const attention_shape *c) {
  shapes all;
  snprintf(all.wide, sizeof all.wide, "[%d %d %d %d]", c->b, c->h, c->t, c->s);
  snprintf(all.row, sizeof all.row, "[%d %d %d]", c->b, c->h, c->t);
  snprintf(all.column, sizeof all.column, "[%d %d %d 1]", c->b, c->h, c->t);
  return all;
}

static int add_stretched(writing *w, const shapes *of, int row) {
  int column = add(w, "reshape %%%d : f32 %s", row, of->column);
  return add(w, "broadcast %%%d : f32 %s", column, of->wide);
}

/* bool, of all scores; -1: none. */
static int add_mask(writing *w, const attention_shape *c, const shapes *of) {
  int seen;
  if (c->mask == MASK_NONE) return -1;
  if (c->mask == MASK_ANY) {
    seen = add(w, "input {name \"seen\"} : bool [%d %d]", c->t, c->s);
  } else {
    int row = add(w, "iota {axis 0} : i32 [%d %d]", c->t, c->s);
    int column = add(w, "iota {axis 1} : i32 [%d %d]", c->t, c->s);
    seen = add(w, "%s %%%d %%%d : bool [%d %d]", c->mask == MASK_CAUSAL ? "ge" : "gt", row, column, c->t, c->s);
  }
  return add(w, "broadcast %%%d : bool %s", seen, of->wide);
}

typedef struct forward {
  int q, k, v, mask, e, sum, p, drop, dropped, o;
} forward;

static void add_output(writing *w, const char *name, int node, const attention_shape *c, int n) {
  if (c->merged) node = add(w, "transpose %%%d {perm [0 2 1 3]} : f32 [%d %d %d %d]", node, c->b, n, c->h, c->d);
  w->n += (size_t)snprintf(w->text + w->n, sizeof w->text - w->n, "output \"%s\" %%%d\n", name, node);
}

static int add_dropped(writing *w, const attention_shape *c, const shapes *of, int drop, int x) {
  if (!c->dropout) return x;
  int factor = add(w, "const {value 1.25} : f32 %s", of->wide);
  int zero = add(w, "const {value 0} : f32 %s", of->wide);
  int scaled = add(w, "mul %%%d %%%d : f32 %s", x, factor, of->wide);
  return add(w, "where %%%d %%%d %%%d : f32 %s", drop, zero, scaled, of->wide);
}

static forward add_forward(writing *w, const attention_shape *c, const shapes *of) {
  forward f = {.drop = -1};
  f.q = add_operand(w, "q", c, c->t);
  f.k = add_operand(w, "k", c, c->s);
  f.v = add_operand(w, "v", c, c->s);
  if (c->dropout) f.drop = add(w, "input {name \"drop\"} : bool %s", of->wide);
  int x = add(w, "einsum %%%d %%%d {labels \"bhqd,bhkd->bhqk\"} : f32 %s", f.q, f.k, of->wide);
  if (c->bias) {
    int bias = add(w, "input {name \"bias\"} : f32 [%d %d %d]", c->h, c->t, c->s);
    bias = add(w, "broadcast %%%d : f32 %s", bias, of->wide);
    x = add(w, "add %%%d %%%d : f32 %s", x, bias, of->wide);
  }
  f.mask = add_mask(w, c, of);
  if (f.mask >= 0) {
    int hidden = add(w, "const {value -inf} : f32 %s", of->wide);
    x = add(w, "where %%%d %%%d %%%d : f32 %s", f.mask, x, hidden, of->wide);
  }
  int most = add(w, "reduce-max %%%d {axes [3]} : f32 %s", x, of->row);
  x = add(w, "sub %%%d %%%d : f32 %s", x, add_stretched(w, of, most), of->wide);
  f.e = add(w, "exp %%%d : f32 %s", x, of->wide);
  f.sum = add_stretched(w, of, add(w, "sum %%%d {axes [3]} : f32 %s", f.e, of->row));
  f.p = add(w, "div %%%d %%%d : f32 %s", f.e, f.sum, of->wide);
  f.dropped = add_dropped(w, c, of, f.drop, f.p);
  f.o = add(w, "einsum %%%d %%%d {labels \"bhqk,bhkd->bhqd\"} : f32 [%d %d %d %d]", f.dropped, f.v, c->b, c->h, c->t,
            c->d);
  add_output(w, "o", f.o, c, c->t);
  return f;
}

/* Along the last axis, in which heads are merged if they are in what is wanted. */
static void add_joined(writing *w, const attention_shape *c, const int *gradients) {
  static const double factors[] = {0.37, -2, 1};
  int width = c->merged ? c->h * c->d : c->d, pieces[3];
  for (int i = 0; i < 3; i++) {
    char shape[48];
    int x = gradients[i];
    snprintf(shape, sizeof shape, "[%d %d %d %d]", c->b, c->merged ? c->t : c->h, c->merged ? c->h : c->t, c->d);
    if (c->merged) x = add(w, "transpose %%%d {perm [0 2 1 3]} : f32 %s", x, shape);
    if (i < 2) x = add(w, "mul %%%d %%%d : f32 %s", x, add(w, "const {value %g} : f32 %s", factors[i], shape), shape);
    if (c->merged) snprintf(shape, sizeof shape, "[%d %d %d]", c->b, c->t, width);
    if (c->merged) x = add(w, "reshape %%%d : f32 %s", x, shape);
    int zero = add(w, "const {value 0} : f32 %s", shape);
    pieces[i] =
        i == 1 ? add(w, "add %%%d %%%d : f32 %s", zero, x, shape) : add(w, "add %%%d %%%d : f32 %s", x, zero, shape);
  }
  char shape[48];
  if (c->merged)
    snprintf(shape, sizeof shape, "[%d %d %d]", c->b, c->t, 3 * width);
  else
    snprintf(shape, sizeof shape, "[%d %d %d %d]", c->b, c->h, c->t, 3 * width);
  int all =
      add(w, "concat %%%d %%%d %%%d {axis %d} : f32 %s", pieces[0], pieces[1], pieces[2], c->merged ? 2 : 3, shape);
  w->n += (size_t)snprintf(w->text + w->n, sizeof w->text - w->n, "output \"joined\" %%%d\n", all);
}

static void add_backward(writing *w, const attention_shape *c, const shapes *of, const forward *f) {
  char like_k[48];
  snprintf(like_k, sizeof like_k, "[%d %d %d %d]", c->b, c->h, c->s, c->d);
  int g = add_operand(w, "g", c, c->t);
  if (!c->direct) g = add(w, "mul %%%d %%%d : f32 [%d %d %d %d]", f->o, g, c->b, c->h, c->t, c->d);
  int dp = add(w, "einsum %%%d %%%d {labels \"bhqd,bhkd->bhqk\"} : f32 %s", g, f->v, of->wide);
  int dv = add(w, "einsum %%%d %%%d {labels \"bhqk,bhqd->bhkd\"} : f32 %s", f->dropped, g, like_k);
  dp = add_dropped(w, c, of, f->drop, dp);
  int direct = add(w, "div %%%d %%%d : f32 %s", dp, f->sum, of->wide);
  int share = add(w, "div %%%d %%%d : f32 %s", f->p, f->sum, of->wide);
  int x = add(w, "mul %%%d %%%d : f32 %s", add(w, "neg %%%d : f32 %s", dp, of->wide), share, of->wide);
  x = add_stretched(w, of, add(w, "sum %%%d {axes [3]} : f32 %s", x, of->row));
  x = add(w, "add %%%d %%%d : f32 %s", direct, x, of->wide);
  x = add(w, "mul %%%d %%%d : f32 %s", x, f->e, of->wide);
  if (f->mask >= 0) {
    int zero = add(w, "const {value 0} : f32 %s", of->wide);
    x = add(w, "where %%%d %%%d %%%d : f32 %s", f->mask, x, zero, of->wide);
  }
  int dq = add(w, "einsum %%%d %%%d {labels \"bhqk,bhkd->bhqd\"} : f32 [%d %d %d %d]", x, f->k, c->b, c->h, c->t, c->d);
  int dk = add(w, "einsum %%%d %%%d {labels \"bhqd,bhqk->bhkd\"} : f32 %s", f->q, x, like_k);
  if (c->joined) {
    add_joined(w, c, (int[]){dq, dk, dv});
    return;
  }
  add_output(w, "dv", dv, c, c->s);
  add_output(w, "dq", dq, c, c->t);
  add_output(w, "dk", dk, c, c->s);
}

planned *planned_attention(const attention_shape *c, const char *more) {
  writing w = {.id = 0};
  shapes of = shapes_of(c);
  w.n = (size_t)snprintf(w.text, sizeof w.text, "graph \"g\"\n");
  forward f = add_forward(&w, c, &of);
  if (c->backward) add_backward(&w, c, &of, &f);
  if (more) snprintf(w.text + w.n, sizeof w.text - w.n, more, f.p);
  /* Outputs come last. */
  char text[sizeof w.text], outputs[1024] = "";
  size_t n = 0;
  for (char *line = strtok(w.text, "\n"); line; line = strtok(NULL, "\n")) {
    if (!strncmp(line, "output", strlen("output")))
      snprintf(outputs + strlen(outputs), sizeof outputs - strlen(outputs), "%s\n", line);
    else
      n += (size_t)snprintf(text + n, sizeof text - n, "%s\n", line);
  }
  snprintf(text + n, sizeof text - n, "%s", outputs);
  return planned_text(text);
}
