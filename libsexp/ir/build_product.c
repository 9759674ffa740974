/* Products: matmul and einsum as EINSUM nodes of two operands.
 *
 * An einsum works on terms: an operand and a letter for each of its axes. Before the product of two terms
 * each is made plain: a letter that stands twice becomes the diagonal, and of an ellipsis axis that is 1
 * in one term and not in the other the 1 is reshaped away. Then the letters are those of the EINSUM node. */
#include <string.h>

#include "../base/bug.h"
#include "build.h"
#include "infer.h"

typedef struct term {
  sx_id id;
  int n;
  char letters[SX_RANK_MAX];
} term;

static int find(const char *letters, int n, char letter) {
  for (int i = 0; i < n; i++)
    if (letters[i] == letter) return i;
  return -1;
}

static bool has(const term *t, char letter) { return find(t->letters, t->n, letter) >= 0; }

/* ---- operations on a term ----------------------------------------------------------------------- */

static void drop_axis(sx_graph *graph, term *t, int axis) {
  const sx_node *node = sx_node_at(graph, t->id);
  int64_t dims[SX_RANK_MAX];
  int rank = 0;
  for (int i = 0; i < t->n; i++) {
    if (i == axis) continue;
    t->letters[rank] = t->letters[i];
    dims[rank++] = node->dims[i];
  }
  t->n = rank;
  t->id = sx_reshape(graph, t->id, rank, dims);
}

/* Axes i < k of equal size n, moved to the end, are one axis of n*n, of which every (n+1)-th element is on
 * the diagonal. */
static void take_diagonal(sx_graph *graph, term *t, int i, int k) {
  const sx_node *node = sx_node_at(graph, t->id);
  int64_t perm[SX_RANK_MAX], dims[SX_RANK_MAX], n = node->dims[i];
  char letter = t->letters[i];
  int rank = 0;
  for (int axis = 0; axis < t->n; axis++) {
    if (axis == i || axis == k) continue;
    t->letters[rank] = t->letters[axis];
    dims[rank] = node->dims[axis];
    perm[rank++] = axis;
  }
  perm[rank] = i;
  perm[rank + 1] = k;
  dims[rank] = n * n;
  t->letters[rank] = letter;
  t->n = rank + 1;
  t->id = sx_transpose(graph, t->id, perm);
  t->id = sx_reshape(graph, t->id, t->n, dims);
  t->id = sx_slice_axis(graph, t->id, rank, 0, n * n, n + 1);
}

static bool take_diagonals(sx_graph *graph, term *t, sx_problem *why) {
  for (int k = 1; k < t->n; k++) {
    const sx_node *node = sx_node_at(graph, t->id);
    int i = find(t->letters, k, t->letters[k]);
    if (i < 0) continue;
    if (node->dims[i] != node->dims[k])
      return sx_problem_set(why, SX_E_SHAPE_INNER, "sizes of %c differ in shape %s", t->letters[k],
                            sx_shape_text_of(node).text);
    take_diagonal(graph, t, i, k);
    k = 0;
  }
  return true;
}

/* Sums over the axes whose letters are not wanted, and brings the rest into the order of the wanted. */
static void arrange(sx_graph *graph, term *t, const char *wanted, int n_wanted) {
  int64_t axes[SX_RANK_MAX], perm[SX_RANK_MAX];
  int n_axes = 0, n = 0;
  char letters[SX_RANK_MAX];
  for (int i = 0; i < t->n; i++) {
    if (find(wanted, n_wanted, t->letters[i]) < 0)
      axes[n_axes++] = i;
    else
      letters[n++] = t->letters[i];
  }
  if (n_axes > 0) t->id = sx_reduce(graph, SX_OP_SUM, t->id, axes, n_axes, false);
  for (int i = 0; i < n_wanted; i++) perm[i] = find(letters, n, wanted[i]);
  t->id = sx_transpose(graph, t->id, perm);
}

/* The product of two plain terms, with the given letters. */
static bool multiply(sx_graph *graph, const term *a, const term *b, const char *letters, int n, sx_dtype dtype,
                     sx_id *id, sx_problem *why) {
  char text[3 * SX_RANK_MAX + 4];
  char *at = text;
  memcpy(at, a->letters, (size_t)a->n);
  at += a->n;
  *at++ = ',';
  memcpy(at, b->letters, (size_t)b->n);
  at += b->n;
  *at++ = '-';
  *at++ = '>';
  memcpy(at, letters, (size_t)n);
  at[n] = 0;
  sx_spec spec = {.op = SX_OP_EINSUM, .dtype = dtype, .inputs = (sx_id[]){a->id, b->id}, .n_inputs = 2, .text = text};
  return sx_graph_try(graph, &spec, id, why);
}

/* ---- matmul ------------------------------------------------------------------------------------- */

/* Letters of a matrix operand: batch axes, aligned from the right, are A B C ... from the last. */
static term matrix_term(const sx_graph *graph, sx_id id, const char *inner) {
  term t = {.id = id, .n = sx_node_at(graph, id)->rank};
  int n_inner = (int)strlen(inner), n_batch = t.n - n_inner;
  for (int i = 0; i < n_batch; i++) t.letters[i] = (char)('A' + n_batch - 1 - i);
  memcpy(t.letters + n_batch, inner, (size_t)n_inner);
  return t;
}

/* Drops the batch axes of 1 that meet another size; false where two sizes do not broadcast. */
static bool match_batches(sx_graph *graph, term *a, term *b) {
  for (int i = a->n - 1; i >= 0; i--) {
    char letter = a->letters[i];
    int k = find(b->letters, b->n, letter);
    if (letter > 'Z' || k < 0) continue;
    int64_t size_a = sx_node_at(graph, a->id)->dims[i], size_b = sx_node_at(graph, b->id)->dims[k];
    if (size_a == size_b) continue;
    if (size_a == 1)
      drop_axis(graph, a, i);
    else if (size_b == 1)
      drop_axis(graph, b, k);
    else
      return false;
  }
  return true;
}

bool sx_try_matmul(sx_graph *graph, sx_id a, sx_id b, sx_dtype dtype, sx_id *id, sx_problem *why) {
  const sx_node *left = sx_node_at(graph, a), *right = sx_node_at(graph, b);
  if (left->rank == 0 || right->rank == 0)
    return sx_problem_set(why, SX_E_SHAPE_RANK, "takes vectors, matrices or batches of them, got %s by %s",
                          sx_shape_text_of(left).text, sx_shape_text_of(right).text);
  if (left->dims[left->rank - 1] != right->dims[right->rank == 1 ? 0 : right->rank - 2])
    return sx_problem_set(why, SX_E_SHAPE_INNER, "inner sizes differ, %s by %s", sx_shape_text_of(left).text,
                          sx_shape_text_of(right).text);
  term s = matrix_term(graph, a, left->rank == 1 ? "k" : "ik"),
       t = matrix_term(graph, b, right->rank == 1 ? "k" : "kj");
  int n_left = left->rank - 2, n_right = right->rank - 2, n = 0;
  char letters[SX_RANK_MAX + 2];
  for (int i = n_left > n_right ? n_left : n_right; i > 0; i--) letters[n++] = (char)('A' + i - 1);
  if (left->rank > 1) letters[n++] = 'i';
  if (right->rank > 1) letters[n++] = 'j';
  if (!match_batches(graph, &s, &t))
    return sx_problem_set(why, SX_E_SHAPE_BROADCAST, "batches of %s and %s do not broadcast together",
                          sx_shape_text_of(left).text, sx_shape_text_of(right).text);
  return multiply(graph, &s, &t, letters, n, dtype, id, why);
}

/* ---- einsum ------------------------------------------------------------------------------------- */

enum { OPERANDS_MAX = 16, TERM_MAX = 2 * SX_RANK_MAX };

/* One comma-separated part of an equation: letters before and after an ellipsis. */
typedef struct part {
  char letters[TERM_MAX];
  int n, ellipsis; /* ellipsis: letters before it, or -1 */
} part;

typedef struct equation {
  part inputs[OPERANDS_MAX], output;
  uint32_t n_inputs;
  bool explicit_output;
  char spare[SX_RANK_MAX]; /* letters of the ellipsis axes, from the last axis; used by no one else */
  int n_spare;             /* axes that some ellipsis stands for */
} equation;

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static bool read_part(const char **at, part *p) {
  *p = (part){.ellipsis = -1};
  for (;; (*at)++) {
    if (**at == ' ') continue;
    if (is_letter(**at)) {
      if (p->n == TERM_MAX) return false;
      p->letters[p->n++] = **at;
    } else if (strncmp(*at, "...", 3) == 0) {
      if (p->ellipsis >= 0) return false;
      p->ellipsis = p->n;
      *at += 2;
    } else {
      return true;
    }
  }
}

static bool read_equation(const char *text, equation *e) {
  const char *at = text;
  *e = (equation){0};
  for (;; at++) {
    if (e->n_inputs == OPERANDS_MAX || !read_part(&at, &e->inputs[e->n_inputs++])) return false;
    if (*at != ',') break;
  }
  if (strncmp(at, "->", 2) == 0) {
    at += 2;
    e->explicit_output = true;
    if (!read_part(&at, &e->output)) return false;
  }
  return *at == 0;
}

static int count_letter(const equation *e, char letter) {
  int n = 0;
  for (uint32_t i = 0; i < e->n_inputs; i++)
    for (int k = 0; k < e->inputs[i].n; k++) n += e->inputs[i].letters[k] == letter;
  return n;
}

/* Without an arrow the result has the ellipsis, then the letters that stand once, in their order. */
static bool imply_output(equation *e) {
  e->output = (part){0};
  const char *order = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  for (; *order; order++) {
    if (count_letter(e, *order) != 1) continue;
    if (e->output.n == TERM_MAX) return false;
    e->output.letters[e->output.n++] = *order;
  }
  return true;
}

static bool check_output(const equation *e) {
  const part *output = &e->output;
  for (int i = 0; i < output->n; i++)
    if (count_letter(e, output->letters[i]) == 0 || find(output->letters, output->n, output->letters[i]) != i)
      return false;
  return true;
}

static void choose_spare_letters(equation *e) {
  for (char c = 'Z'; e->n_spare < SX_RANK_MAX; c = c == 'A' ? 'z' : (char)(c - 1))
    if (count_letter(e, c) == 0) e->spare[e->n_spare++] = c;
  e->n_spare = 0;
}

/* Letters for n axes of the part, its ellipsis spelled out. */
static void spell_out(const equation *e, const part *p, int n, char *letters) {
  int spread = n - p->n, before = p->ellipsis < 0 ? p->n : p->ellipsis;
  for (int i = 0; i < before; i++) letters[i] = p->letters[i];
  for (int i = 0; i < spread; i++) letters[before + i] = e->spare[spread - 1 - i];
  for (int i = before; i < p->n; i++) letters[spread + i] = p->letters[i];
}

static bool read_terms(const sx_graph *graph, equation *e, const sx_id *inputs, term *terms, sx_problem *why) {
  for (uint32_t i = 0; i < e->n_inputs; i++) {
    const sx_node *node = sx_node_at(graph, inputs[i]);
    const part *p = &e->inputs[i];
    int spread = node->rank - p->n;
    if (spread < 0 || (spread > 0 && p->ellipsis < 0))
      return sx_problem_set(why, SX_E_SHAPE_RANK, "operand %u has %d letters and shape %s", i + 1, p->n,
                            sx_shape_text_of(node).text);
    if (spread > e->n_spare) e->n_spare = spread;
    terms[i] = (term){.id = inputs[i], .n = node->rank};
    spell_out(e, p, node->rank, terms[i].letters);
  }
  return true;
}

/* Of letters that meet in two terms, drops ellipsis axes of 1 that meet another size; else sizes agree. */
static bool match_sizes(sx_graph *graph, const equation *e, term *a, term *b, sx_problem *why) {
  for (int i = a->n - 1; i >= 0; i--) {
    int k = find(b->letters, b->n, a->letters[i]);
    if (k < 0) continue;
    const sx_node *left = sx_node_at(graph, a->id), *right = sx_node_at(graph, b->id);
    if (left->dims[i] == right->dims[k]) continue;
    bool spread = find(e->spare, e->n_spare, a->letters[i]) >= 0;
    if (spread && left->dims[i] == 1)
      drop_axis(graph, a, i);
    else if (spread && right->dims[k] == 1)
      drop_axis(graph, b, k);
    else
      return sx_problem_set(why, spread ? SX_E_SHAPE_BROADCAST : SX_E_SHAPE_INNER, "sizes of %.*s differ, %s by %s",
                            spread ? 3 : 1, spread ? "..." : &a->letters[i], sx_shape_text_of(left).text,
                            sx_shape_text_of(right).text);
  }
  return true;
}

/* The letters of two terms that the result or a later term has. */
static int kept_letters(const term *a, const term *b, const term *later, uint32_t n_later, const char *output,
                        int n_output, char letters[2 * SX_RANK_MAX]) {
  int n = 0;
  for (int i = 0; i < a->n + b->n; i++) {
    char letter = i < a->n ? a->letters[i] : b->letters[i - a->n];
    bool wanted = find(output, n_output, letter) >= 0;
    for (uint32_t k = 0; k < n_later; k++) wanted = wanted || has(&later[k], letter);
    if (wanted && find(letters, n, letter) < 0) letters[n++] = letter;
  }
  return n;
}

/* Multiplies the terms from the left; intermediate results are f32. */
static bool fold_terms(sx_graph *graph, const equation *e, term *terms, const char *output, int n_output,
                       sx_dtype dtype, sx_id *id, sx_problem *why) {
  uint32_t n = e->n_inputs;
  term total = terms[0];
  for (uint32_t i = 1; i < n; i++) {
    char letters[2 * SX_RANK_MAX];
    int n_letters = n_output;
    memcpy(letters, output, (size_t)n_output);
    if (!match_sizes(graph, e, &total, &terms[i], why)) return false;
    if (i + 1 < n) n_letters = kept_letters(&total, &terms[i], terms + i + 1, n - i - 1, output, n_output, letters);
    if (n_letters > SX_RANK_MAX)
      return sx_problem_set(why, SX_E_SHAPE_RANK, "the product of operands up to %u has more than 8 axes", i + 1);
    if (!multiply(graph, &total, &terms[i], letters, n_letters, i + 1 < n ? SX_F32 : dtype, &total.id, why))
      return false;
    total.n = n_letters;
    memcpy(total.letters, letters, (size_t)n_letters);
  }
  if (n == 1) arrange(graph, &total, output, n_output);
  *id = total.id;
  return true;
}

static bool check_floats(const sx_graph *graph, const sx_id *inputs, uint32_t n_inputs, sx_dtype dtype,
                         sx_problem *why) {
  sx_dtype first = sx_node_at(graph, inputs[0])->dtype;
  for (uint32_t i = 0; i < n_inputs; i++) {
    sx_dtype other = sx_node_at(graph, inputs[i])->dtype;
    if (other != first)
      return sx_problem_set(why, SX_E_TYPE_DIFFER, "dtypes differ, %s and %s; cast one of them", sx_dtype_name(first),
                            sx_dtype_name(other));
  }
  if (sx_dtype_is_float(first) && sx_dtype_is_float(dtype)) return true;
  return sx_problem_set(why, SX_E_TYPE_OPERAND, "takes and gives floats (f32 bf16 f16), got %s",
                        sx_dtype_name(sx_dtype_is_float(first) ? dtype : first));
}

bool sx_try_einsum(sx_graph *graph, const char *text, const sx_id *inputs, uint32_t n_inputs, sx_dtype dtype, sx_id *id,
                   sx_problem *why) {
  equation e;
  term terms[OPERANDS_MAX] = {{0}};
  char output[TERM_MAX + SX_RANK_MAX];
  if (!read_equation(text, &e) || (!e.explicit_output && !imply_output(&e)) || !check_output(&e))
    return sx_problem_set(why, SX_E_SHAPE_EQUATION, "\"%.100s\" is no equation like \"ij,jk->ik\"", text);
  if (e.n_inputs != n_inputs)
    return sx_problem_set(why, SX_E_TYPE_OPERANDS, "\"%.100s\" has %u operands, got %u", text, e.n_inputs, n_inputs);
  choose_spare_letters(&e);
  if (!check_floats(graph, inputs, n_inputs, dtype, why) || !read_terms(graph, &e, inputs, terms, why)) return false;
  int n_output = e.output.n + (e.output.ellipsis >= 0 ? e.n_spare : 0);
  if (n_output > SX_RANK_MAX)
    return sx_problem_set(why, SX_E_SHAPE_RANK, "the result of \"%.100s\" has more than 8 axes", text);
  spell_out(&e, &e.output, n_output, output);
  sx_dtype computed = n_inputs == 2 ? sx_node_at(graph, inputs[0])->dtype : n_inputs == 1 ? dtype : SX_F32;
  for (uint32_t i = 0; i < n_inputs; i++) {
    terms[i].id = sx_cast(graph, terms[i].id, computed);
    if (!take_diagonals(graph, &terms[i], why)) return false;
  }
  return fold_terms(graph, &e, terms, output, n_output, dtype, id, why);
}
