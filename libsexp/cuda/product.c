/* Lowering of einsum, and of what convolutions leave to it. */
#include "product.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "kernel_product.h"
#include "product_map.h"

/* Multiplications that a kernel does in the time that a call takes, and in that of a copy besides. */
enum { SMALL = 1 << 16, SMALL_COPIED = 1 << 20 };
enum { LONG_DEPTH = 4096, LONG_RATIO = 4, LONG_SIDE = 16 };
enum { PARTS_MOST = 32, PART_DEPTH = 512, PARTS_BYTES = 256 << 20, OPERAND_ALIGNMENT = 16 };
/* Of operands and result, for launches of a thread an element: more than any device holds. */
#define ELEMENTS_MOST ((double)(INT64_C(1) << 36))

sx_strided sx_strided_of(const sx_plan *plan, sx_id id) {
  const sx_node *node = sx_node_at(plan->graph, id);
  return (sx_strided){node->dtype, node->rank, node->dims, plan->views[id].strides};
}

static int64_t elements_of(const sx_contract *c) { return c->batch.count * c->rows.count * c->columns.count; }

/* ---- launches ----------------------------------------------------------------------------------- */

static void set_launch(sx_lowering *lowering, sx_work *work, const char *kernel, int64_t n_groups,
                       const sx_place *places, uint32_t n_places) {
  sx_argument *arguments = SX_NEW_N(lowering->arena, sx_argument, n_places);
  for (uint32_t i = 0; i < n_places; i++)
    arguments[i] = (sx_argument){.kind = SX_ARGUMENT_PLACE, .written = i == n_places - 1, .place = places[i]};
  work->launch = (sx_launch){.kernel = kernel,
                             .grid = {(uint32_t)n_groups, 1, 1},
                             .block = {SX_CONTRACT_THREADS, 1, 1},
                             .arguments = arguments,
                             .n_arguments = n_places};
}

static int64_t groups_of(int64_t n) { return (n + SX_CONTRACT_THREADS - 1) / SX_CONTRACT_THREADS; }

static int64_t count_of(const sx_strided *tensor) {
  int64_t n = 1;
  for (int axis = 0; axis < tensor->rank; axis++) n *= tensor->dims[axis];
  return n;
}

void sx_lower_copy(sx_lowering *lowering, const sx_contraction *of, const sx_strided *tensor, sx_place from,
                   sx_place to) {
  const char *text = sx_contract_copy_text(tensor, lowering->arena);
  const char *kernel = sx_lowering_kernel(lowering, "lay_out", text);
  int64_t n = count_of(tensor);
  sx_work *work = sx_lowering_add(lowering, SX_WORK_LAUNCH, of->task, of->node);
  set_launch(lowering, work, kernel, groups_of(n), (sx_place[]){from, to}, 2);
  work->bytes = 2.0 * (double)n * (double)sx_dtype_bytes(tensor->dtype);
}

/* Adds up results that lie one after the other in scratch. */
static void lower_sum(sx_lowering *lowering, const sx_contraction *of, const sx_contract *contract, int64_t parts,
                      sx_place from) {
  const char *text = sx_contract_sum_text(contract, parts, lowering->arena);
  const char *kernel = sx_lowering_kernel(lowering, "sum_parts", text);
  int64_t n = elements_of(contract);
  sx_work *work = sx_lowering_add(lowering, SX_WORK_LAUNCH, of->task, of->node);
  set_launch(lowering, work, kernel, groups_of(n), (sx_place[]){from, of->result}, 2);
  work->flops = (double)n * (double)(parts - 1);
  work->bytes = (double)n * (4.0 * (double)parts + (double)sx_dtype_bytes(contract->to));
}

static void count_work(sx_work *work, const sx_contract *c) {
  double m = (double)c->rows.count, n = (double)c->columns.count, k = (double)c->depth.count;
  double batch = (double)c->batch.count, from = (double)sx_dtype_bytes(c->from);
  work->flops = 2 * batch * m * n * k;
  work->bytes = batch * ((m + n) * k * from + m * n * (double)sx_dtype_bytes(c->to));
}

/* By the project's own kernel. */
static void lower_kernel(sx_lowering *lowering, const sx_contraction *of) {
  sx_contract_kernel kernel = sx_contract_kernel_of(&of->contract);
  const char *text = sx_contract_kernel_text(&kernel, lowering->arena);
  const char *name = sx_lowering_kernel(lowering, "product", text);
  sx_place result = kernel.parts > 1 ? sx_lowering_scratch(lowering, 0, kernel.scratch_bytes) : of->result;
  sx_place first = of->operands[kernel.exchanged], second = of->operands[!kernel.exchanged];
  sx_work *work = sx_lowering_add(lowering, SX_WORK_LAUNCH, of->task, of->node);
  set_launch(lowering, work, name, kernel.n_groups, (sx_place[]){first, second, result}, 3);
  count_work(work, &of->contract);
  if (kernel.parts > 1) lower_sum(lowering, of, &kernel.contract, kernel.parts, result);
}

/* ---- keys --------------------------------------------------------------------------------------- */

static const char *layout(bool transposed) { return transposed ? "t" : "n"; }

void sx_product_key_print(sx_text *text, const sx_product_key *key) {
  sx_text_addf(text, "Product { batch: %" PRId64 ", m: %" PRId64 ", n: %" PRId64 ", k: %" PRId64 ", a: %s, b: %s } %s",
               key->batch, key->m, key->n, key->k, layout(key->a_transposed), layout(key->b_transposed),
               sx_dtype_name(key->dtype));
}

void sx_product_call_print(sx_text *text, const sx_product_key *key, sx_dtype to) {
  sx_product_key_print(text, key);
  if (to != key->dtype) sx_text_addf(text, " to %s", sx_dtype_name(to));
}

static bool is_float(sx_dtype dtype) { return dtype == SX_F32 || dtype == SX_BF16 || dtype == SX_F16; }

static bool has_sizes_of_call(const sx_product_key *key) {
  const int64_t sizes[] = {key->batch, key->m, key->n, key->k};
  for (int i = 0; i < 4; i++)
    if (sizes[i] < 1 || sizes[i] > INT_MAX) return false;
  double batch = (double)key->batch, m = (double)key->m, n = (double)key->n, k = (double)key->k, most = ELEMENTS_MOST;
  return batch * m * n <= most && batch * m * k <= most && batch * n * k <= most;
}

/* What was read is right where it is printed as it was. */
bool sx_product_call_parse(sx_product_key *key, sx_dtype *to, const char *text, sx_arena *arena) {
  char a = 0, b = 0, from_name[8] = "", to_name[8] = "";
  sx_product_key read = {0};
  sx_text again;
  int n = sscanf(text,
                 "Product { batch: %18" SCNd64 ", m: %18" SCNd64 ", n: %18" SCNd64 ", k: %18" SCNd64
                 ", a: %c, b: %c } %7s to %7s",
                 &read.batch, &read.m, &read.n, &read.k, &a, &b, from_name, to_name);
  if (n < 7 || !sx_dtype_parse(from_name, &read.dtype)) return false;
  *to = read.dtype;
  if (n == 8 && !sx_dtype_parse(to_name, to)) return false;
  read.a_transposed = a == 't';
  read.b_transposed = b == 't';
  sx_text_init(&again, arena);
  sx_product_call_print(&again, &read, *to);
  *key = read;
  return !strcmp(sx_text_get(&again), text) && has_sizes_of_call(key) && is_float(read.dtype) &&
         (*to == read.dtype || *to == SX_F32);
}

bool sx_product_is_long(const sx_product_key *key) {
  int64_t larger = key->m > key->n ? key->m : key->n, smaller = key->m > key->n ? key->n : key->m;
  return key->dtype == SX_F32 && key->batch == 1 && smaller >= LONG_SIDE && key->k >= LONG_DEPTH &&
         key->k / LONG_RATIO >= larger;
}

const char *const *sx_product_implementations(size_t *n, const sx_product_key *key, sx_arena *arena) {
  SX_VEC(const char *) values = {0};
  SX_PUSH(arena, values, "ordinary");
  SX_PUSH(arena, values, "transposed");
  for (int64_t parts = 2; parts <= PARTS_MOST; parts *= 2)
    if (key->k % parts == 0 && key->k / parts >= PART_DEPTH && key->m * key->n <= PARTS_BYTES / 4 / parts)
      SX_PUSH(arena, values, sx_format(arena, "split %" PRId64, parts));
  *n = values.n;
  return values.items;
}

/* The result row by row: what cuBLAS computes is its transpose, whose first operand is B's. */
static sx_product_key key_of_call(const sx_gemm_call *call, sx_dtype dtype) {
  return (sx_product_key){call->batch, call->n, call->m, call->k, call->b_transposed, call->a_transposed, dtype};
}

static bool has_no_gaps(const sx_gemm_call *call) {
  return call->c_leading == call->m && call->a_leading == (call->a_transposed ? call->k : call->m) &&
         call->b_leading == (call->b_transposed ? call->n : call->k);
}

static bool is_long(sx_product_key *key, const sx_product_mapping *mapping, const sx_contraction *of) {
  *key = key_of_call(&mapping->call, of->contract.from);
  return of->chooses && mapping->n_calls == 1 && !mapping->c.is && has_no_gaps(&mapping->call) &&
         (mapping->a.is || of->operands[0].offset % OPERAND_ALIGNMENT == 0) &&
         (mapping->b.is || of->operands[1].offset % OPERAND_ALIGNMENT == 0) && sx_product_is_long(key);
}

/* ---- cuBLAS ------------------------------------------------------------------------------------- */

/* Operands are copied to scratch, one after the other. */
static sx_place lower_operand(sx_lowering *lowering, const sx_contraction *of, const sx_product_copy *copy, int i,
                              int64_t *used) {
  if (!copy->is) return of->operands[i];
  sx_strided tensor = {of->contract.from, copy->rank, copy->dims, copy->strides};
  int64_t n_bytes = copy->n * (int64_t)sx_dtype_bytes(tensor.dtype);
  sx_place to = sx_lowering_scratch(lowering, *used, n_bytes);
  sx_lower_copy(lowering, of, &tensor, of->operands[i], to);
  *used = to.offset + n_bytes;
  return to;
}

static const char *text_of(const sx_product *product, const char *implementation, sx_arena *arena) {
  sx_product_key key = key_of_call(&product->calls[0], product->from);
  sx_text text;
  sx_text_init(&text, arena);
  if (key.batch > 1) sx_text_addf(&text, "%" PRId64 " of ", key.batch);
  sx_text_addf(&text, "%" PRId64 " x %" PRId64 " x %" PRId64 " %s %s %s", key.m, key.n, key.k, layout(key.a_transposed),
               layout(key.b_transposed), sx_dtype_name(key.dtype));
  if (product->to != product->from) sx_text_addf(&text, " to %s", sx_dtype_name(product->to));
  sx_text_addf(&text, ", cuBLAS%s%s", implementation ? ", " : "", implementation ? implementation : "");
  if (product->n_calls > 1) sx_text_addf(&text, ", %u calls", product->n_calls);
  return sx_text_get(&text);
}

static void add_product(sx_lowering *lowering, const sx_contraction *of, sx_product *product) {
  sx_work *work = sx_lowering_add(lowering, SX_WORK_PRODUCT, of->task, of->node);
  work->product = product;
  count_work(work, &of->contract);
}

/* What it computes transposed, operands exchanged; then the copy turns it. */
static void lower_transposed(sx_lowering *lowering, const sx_contraction *of, sx_product *product, int64_t used) {
  sx_gemm_call *call = &product->calls[0], old = *call;
  int64_t n = (int64_t)old.m * old.n;
  sx_place from = sx_lowering_scratch(lowering, used, n * 4), first = product->operands[0];
  product->result = from;
  product->operands[0] = product->operands[1];
  product->operands[1] = first;
  *call = (sx_gemm_call){!old.b_transposed,
                         !old.a_transposed,
                         old.n,
                         old.m,
                         old.k,
                         old.b_leading,
                         old.a_leading,
                         old.n,
                         1,
                         0,
                         0,
                         0,
                         old.b,
                         old.a,
                         0};
  add_product(lowering, of, product);
  sx_strided result = {SX_F32, 2, (int64_t[]){old.n, old.m}, (int64_t[]){1, old.n}};
  sx_lower_copy(lowering, of, &result, from, of->result);
}

static void lower_split(sx_lowering *lowering, const sx_contraction *of, sx_product *product, int64_t used,
                        const char *implementation) {
  int parts = 0;
  for (const char *digit = implementation + strlen("split "); *digit; digit++) parts = parts * 10 + *digit - '0';
  sx_gemm_call *call = &product->calls[0];
  int64_t n = (int64_t)call->m * call->n;
  call->k /= parts;
  call->batch = parts;
  call->a_stride = call->a_transposed ? call->k : (int64_t)call->k * call->a_leading;
  call->b_stride = call->b_transposed ? (int64_t)call->k * call->b_leading : call->k;
  call->c_stride = n;
  product->result = sx_lowering_scratch(lowering, used, n * parts * 4);
  add_product(lowering, of, product);
  sx_contract whole = {.from = SX_F32,
                       .to = SX_F32,
                       .batch = {.count = 1},
                       .rows = {1, n, {{.dim = n, .c = 1}}},
                       .columns = {.count = 1},
                       .depth = {.count = 1}};
  lower_sum(lowering, of, &whole, parts, product->result);
}

static void lower_calls(sx_lowering *lowering, const sx_contraction *of, const sx_product_mapping *mapping) {
  int64_t used = 0;
  sx_place a = lower_operand(lowering, of, &mapping->a, 0, &used);
  sx_place b = lower_operand(lowering, of, &mapping->b, 1, &used);
  sx_product *product = SX_NEW(lowering->arena, sx_product);
  *product = (sx_product){.operands = {mapping->exchanged ? b : a, mapping->exchanged ? a : b},
                          .result = of->result,
                          .from = of->contract.from,
                          .to = of->contract.to,
                          .calls = sx_product_calls(mapping, lowering->arena),
                          .n_calls = (uint32_t)mapping->n_calls};
  sx_product_key key;
  const char *implementation = NULL;
  if (is_long(&key, mapping, of)) {
    sx_text text;
    sx_text_init(&text, lowering->arena);
    sx_product_key_print(&text, &key);
    implementation = lowering->decided ? lowering->decided(lowering->options, "product", sx_text_get(&text)) : NULL;
    if (!implementation) implementation = "ordinary";
  } else {
    sx_text text;
    sx_text_init(&text, lowering->arena);
    sx_product_call_print(&text, &key, product->to);
    product->key = sx_text_get(&text);
  }
  product->text = text_of(product, implementation, lowering->arena);
  if (implementation && !strcmp(implementation, "transposed")) {
    lower_transposed(lowering, of, product, used);
    return;
  }
  if (implementation && !strncmp(implementation, "split ", 6)) {
    lower_split(lowering, of, product, used, implementation);
    return;
  }
  if (mapping->c.is) {
    int64_t n_bytes = mapping->c.n * (int64_t)sx_dtype_bytes(of->contract.to);
    product->result = sx_lowering_scratch(lowering, used, n_bytes);
  }
  add_product(lowering, of, product);
  if (mapping->c.is) {
    sx_strided tensor = {of->contract.to, mapping->c.rank, mapping->c.dims, mapping->c.strides};
    sx_lower_copy(lowering, of, &tensor, product->result, of->result);
  }
}

/* ---- contractions ------------------------------------------------------------------------------- */

/* Neither so small, nor nothing but dot products side by side, that a kernel is not behind a call. */
static bool is_for_cublas(sx_product_mapping *mapping, const sx_contract *c) {
  double products = (double)c->batch.count * (double)c->rows.count * (double)c->columns.count * (double)c->depth.count;
  if (products <= SMALL || (c->rows.count * c->columns.count == 1 && c->batch.count > 1)) return false;
  if (!sx_product_map(mapping, c)) return false;
  return products > SMALL_COPIED || !(mapping->a.is || mapping->b.is || mapping->c.is);
}

static bool is_too_large(const sx_contract *c) {
  double batch = (double)c->batch.count, m = (double)c->rows.count, n = (double)c->columns.count;
  double k = (double)c->depth.count, most = ELEMENTS_MOST;
  return batch * m * n > most || batch * m * k > most || batch * n * k > most;
}

bool sx_lower_contraction(sx_lowering *lowering, const sx_contraction *contraction) {
  sx_contraction of = *contraction;
  int64_t n = elements_of(&of.contract);
  if (n == 0) return true;
  if (is_too_large(&of.contract)) {
    const sx_node *node = sx_node_at(lowering->plan->graph, of.node);
    sx_text shape;
    sx_text_init(&shape, lowering->arena);
    sx_text_add_shape(&shape, node->dims, node->rank);
    sx_error(lowering->diags, SX_E_DEVICE_PRODUCT, node->span,
             "%s to %s has an operand or a result of more than 2^36 elements", sx_op_describe(node->op)->name,
             sx_text_get(&shape));
    return false;
  }
  if (of.contract.depth.count == 0) {
    sx_work *work = sx_lowering_add(lowering, SX_WORK_ZERO, of.task, of.node);
    work->zero = of.result;
    work->zero_bytes = n * (int64_t)sx_dtype_bytes(of.contract.to);
    work->bytes = (double)work->zero_bytes;
    return true;
  }
  of.contract = sx_contract_merged(&of.contract);
  sx_product_mapping mapping;
  if (lowering->portable || !is_for_cublas(&mapping, &of.contract))
    lower_kernel(lowering, &of);
  else
    lower_calls(lowering, &of, &mapping);
  return true;
}

static sx_contraction contraction_of(const sx_plan *plan, uint32_t task) {
  sx_id id = plan->tasks.items[task].nodes[0];
  const sx_node *node = sx_node_at(plan->graph, id);
  sx_strided inputs[2] = {sx_strided_of(plan, node->inputs[0]), sx_strided_of(plan, node->inputs[1])};
  return (sx_contraction){.task = task, .node = id, .contract = sx_contract_of(node, inputs)};
}

static void find_places(sx_contraction *of, const sx_lowering *lowering) {
  const sx_node *node = sx_node_at(lowering->plan->graph, of->node);
  of->operands[0] = sx_place_of(lowering, node->inputs[0]);
  of->operands[1] = sx_place_of(lowering, node->inputs[1]);
  of->result = sx_place_of(lowering, of->node);
}

bool sx_lower_product(sx_lowering *lowering, uint32_t task) {
  sx_contraction of = contraction_of(lowering->plan, task);
  find_places(&of, lowering);
  of.chooses = true;
  return sx_lower_contraction(lowering, &of);
}

bool sx_product_key_of(sx_product_key *key, const sx_plan *plan, uint32_t task) {
  const sx_task *at = &plan->tasks.items[task];
  if (at->kind != SX_TASK_NODE || sx_node_at(plan->graph, at->nodes[0])->op != SX_OP_EINSUM) return false;
  sx_lowering lowering = {.plan = plan};
  sx_contraction of = contraction_of(plan, task);
  find_places(&of, &lowering);
  of.chooses = true;
  of.contract = sx_contract_merged(&of.contract);
  sx_product_mapping mapping;
  return elements_of(&of.contract) > 0 && of.contract.depth.count > 0 && is_for_cublas(&mapping, &of.contract) &&
         is_long(key, &mapping, &of);
}
