/* Paths: views as few loops. */
#include "emit_parts.h"

sx_path sx_path_make(const int64_t *dims, const int64_t *strides, int rank) {
  sx_path path = {.n = 1};
  for (int i = 0; i < rank; i++) path.n *= dims[i];
  for (int i = 0; i < rank; i++) {
    int last = path.rank - 1;
    if (dims[i] == 1) continue;
    if (path.rank && path.strides[last] == strides[i] * dims[i]) {
      path.dims[last] *= dims[i];
      path.strides[last] = strides[i];
      continue;
    }
    path.dims[path.rank] = dims[i];
    path.strides[path.rank++] = strides[i];
  }
  if (path.rank && path.n) return path;
  bool repeats = path.n == 1 && rank > 0;
  for (int i = 0; i < rank; i++) repeats = repeats && strides[i] == 0;
  path = sx_path_row_major(path.n);
  if (repeats) path.strides[0] = 0;
  return path;
}

sx_path sx_path_of(const sx_plan *plan, sx_id id) {
  const sx_node *node = sx_node_at(plan->graph, id);
  return sx_path_make(node->dims, plan->views[id].strides, node->rank);
}

sx_path sx_path_row_major(int64_t n) { return (sx_path){.rank = 1, .n = n, .dims = {n}, .strides = {1}}; }

int64_t sx_path_distinct(const sx_path *path) {
  int64_t n = path->n ? 1 : 0;
  for (int i = 0; i < path->rank; i++)
    if (path->strides[i]) n *= path->dims[i];
  return n;
}

int64_t sx_path_reach(const sx_path *path) {
  int64_t up = 0, down = 0;
  for (int i = 0; i < path->rank && path->n; i++) {
    int64_t to = (path->dims[i] - 1) * path->strides[i];
    if (to > 0)
      up += to;
    else
      down -= to;
  }
  return up > down ? up : down;
}

void sx_path_lines(const int64_t *dims, const int64_t *strides, int rank, int axis, sx_path *lines, sx_path *along) {
  int64_t other_dims[SX_RANK_MAX], other_strides[SX_RANK_MAX];
  int n = 0;
  for (int k = 0; k < rank; k++) {
    if (k == axis) continue;
    other_dims[n] = dims[k];
    other_strides[n++] = strides[k];
  }
  *lines = sx_path_make(other_dims, other_strides, n);
  *along = sx_path_make(dims + axis, strides + axis, 1);
}

bool sx_path_split(const sx_path *path, int64_t row, sx_path *outer, sx_path *inner) {
  int64_t dims[2][SX_RANK_MAX + 1], strides[2][SX_RANK_MAX + 1], left = row;
  int n_outer = 0, first = path->rank;
  if (!row || path->n % row) return false;
  while (first > 0 && left > 1) {
    int64_t dim = path->dims[--first];
    if (left % dim == 0) {
      left /= dim;
      continue;
    }
    if (dim % left) return false;
    break;
  }
  /* Loops from `first` on are inner ones, the first of them of `left` steps only where it reaches over the row's end.
   */
  bool cut = first < path->rank && left > 1;
  int n_inner = 0;
  for (int i = 0; i < first; i++) {
    dims[0][n_outer] = path->dims[i];
    strides[0][n_outer++] = path->strides[i];
  }
  for (int i = first; i < path->rank; i++) {
    dims[1][n_inner] = path->dims[i];
    strides[1][n_inner++] = path->strides[i];
  }
  if (cut) {
    dims[0][n_outer] = path->dims[first] / left;
    strides[0][n_outer++] = path->strides[first] * left;
    dims[1][0] = left;
  }
  if (n_outer > SX_RANK_MAX) return false;
  *outer = sx_path_make(dims[0], strides[0], n_outer);
  *inner = sx_path_make(dims[1], strides[1], n_inner);
  return true;
}
