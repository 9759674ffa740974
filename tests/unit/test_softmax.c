/* Tiles of softmax and its gradient: every bit is that of plain loops, or the kernel says that it may not be. */
#include <math.h>
#include <string.h>

#include "../../kernels/math.h"
#include "../../libsexp/cpu/kernel.h"
#include "../../libsexp/cpu/softmax.h"
#include "../common/cmocka_all.h"
#include "../common/random_graph.h"

enum { ROWS = 14, COLUMNS = 300, PITCH = 336, LANES = 32, FILL = 0xff };

typedef struct tile_data {
  float scores[ROWS * PITCH], weights[ROWS * PITCH], slopes[ROWS * PITCH], gradients[ROWS * PITCH];
} tile_data;

static float uniform(random_source *random) { return (float)random_below(random, 2001) / 1000.0f - 1.0f; }

/* Scores of a spread, in places far apart; what lies past the columns must not matter. */
static void fill(tile_data *data, random_source *random, float spread) {
  memset(data, FILL, sizeof *data);
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < COLUMNS; j++) {
      data->scores[i * PITCH + j] = spread * uniform(random);
      data->slopes[i * PITCH + j] = random_below(random, 9) ? uniform(random) : -0.0f;
    }
}

/* The sum of numerics 1 of a row of `columns`, of which those from n on are 0. */
static float sum_of(const float *row, int64_t n, int64_t columns) {
  float lanes[LANES];
  int64_t used = columns < LANES ? columns : LANES;
  for (int64_t j = 0; j < columns; j++) {
    float x = j < n ? row[j] : 0;
    lanes[j % LANES] = j < LANES ? x : lanes[j % LANES] + x;
  }
  for (int64_t h = LANES / 2; h > 0; h /= 2)
    for (int64_t j = 0; j < h && j + h < used; j++) lanes[j] += lanes[j + h];
  return lanes[0];
}

/* One row as written in softmax.h; gives the sum of its gradient. */
static float expected_row(const sx_softmax_tile *tile, tile_data *data, int64_t row) {
  float *e = data->scores + row * PITCH, *p = data->weights + row * PITCH, *t = data->slopes + row * PITCH;
  float *g = data->gradients + row * PITCH, most = e[0], shares[COLUMNS] = {0};
  int64_t n = tile->n_seen + row < tile->n_columns ? tile->n_seen + row : tile->n_columns;
  for (int64_t j = 1; j < n; j++) most = e[j] > most ? e[j] : most;
  for (int64_t j = 0; j < n; j++) e[j] = sx_exp_f32(e[j] - most);
  float z = sum_of(e, n, tile->n_columns);
  for (int64_t j = 0; j < n; j++) {
    p[j] = e[j] / z;
    shares[j] = -t[j] * (p[j] / z);
  }
  float total = sum_of(shares, n, tile->n_columns);
  for (int64_t j = 0; j < n; j++) g[j] = (t[j] / z + total) * e[j];
  for (int64_t j = n; j < tile->limit; j++) p[j] = g[j] = 0;
  return total;
}

static bool are_equal(const sx_softmax_tile *tile, const tile_data *got, const tile_data *expected) {
  for (int64_t i = 0; i < tile->n_rows; i++) {
    size_t n_bytes = (size_t)tile->limit * sizeof(float);
    if (memcmp(got->weights + i * PITCH, expected->weights + i * PITCH, n_bytes)) return false;
    if (tile->slopes && memcmp(got->gradients + i * PITCH, expected->gradients + i * PITCH, n_bytes)) return false;
  }
  return true;
}

static sx_softmax_tile tile_of(tile_data *data, int64_t n_seen, bool gradient) {
  int64_t limit = n_seen + ROWS - 1 < COLUMNS ? n_seen + ROWS - 1 : COLUMNS;
  sx_softmax_tile tile = {.scores = data->scores,
                          .weights = data->weights,
                          .pitch = PITCH,
                          .n_rows = ROWS,
                          .n_seen = n_seen,
                          .limit = limit,
                          .n_columns = COLUMNS,
                          .hidden = -INFINITY};
  if (gradient) {
    tile.slopes = data->slopes;
    tile.gradients = data->gradients;
  }
  return tile;
}

/* Runs `body` with the kernel of each level that there is, as `run`. */
#define EACH_LEVEL(body)                                                            \
  for (sx_simd simd = SX_SIMD_SCALAR; simd < SX_N_SIMD; simd++) {                   \
    if (!sx_simd_available(simd)) continue;                                         \
    bool (*run)(const sx_softmax_tile *tile) = sx_kernels(simd)->matrices->softmax; \
    body                                                                            \
  }

static void tiles_have_the_bits_of_loops(void **state) {
  (void)state;
  static const int64_t seen[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 90, 127, 128, 129, 250, 280, 290, 299, 300};
  static const float spreads[] = {0, 1, 30, 200, 1e30f};
  static tile_data first, expected, got;
  random_source random = {5};
  for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
    for (size_t k = 0; k < sizeof spreads / sizeof *spreads; k++) {
      bool gradient = (i + k) % 3 != 0;
      fill(&first, &random, spreads[k]);
      expected = first;
      sx_softmax_tile tile = tile_of(&expected, seen[i], gradient);
      bool fits = true;
      for (int64_t row = 0; row < ROWS; row++) {
        float total = expected_row(&tile, &expected, row);
        fits = fits && (!gradient || total != 0);
      }
      EACH_LEVEL(got = first; tile = tile_of(&got, seen[i], gradient); assert_int_equal(run(&tile), fits);
                 assert_true(!fits || are_equal(&tile, &got, &expected));)
    }
}

typedef struct refusal {
  int64_t n_seen;
  float hidden, score, slopes; /* a score of the last row; all slopes of it, NAN: as they are */
  bool fits;
} refusal;

static const refusal refusals[] = {
    {20, -INFINITY, 0.5f, NAN, true},      {0, -INFINITY, 0.5f, NAN, false},      {-3, -INFINITY, 0.5f, NAN, false},
    {20, -110, 0.5f, NAN, true},           {20, -100, 0.5f, NAN, false},          {20, 3, 0.5f, NAN, false},
    {20, -103.7f, 0.5f, NAN, true},        {20, -102.9f, 0.5f, NAN, false},       {20, -INFINITY, NAN, NAN, false},
    {20, -INFINITY, INFINITY, NAN, false}, {20, -INFINITY, -INFINITY, NAN, true}, {20, -INFINITY, 3e38f, NAN, true},
    {20, -INFINITY, 0.5f, 0.0f, false},    {20, -INFINITY, 0.5f, -0.0f, false},   {20, -INFINITY, 0.5f, INFINITY, true},
    {COLUMNS, 3, 0.5f, NAN, true},         {COLUMNS - 13, 3, 0.5f, NAN, false},
};

/* Hidden columns that are not 0, rows without any that is seen, what is no number, a sum of a gradient that is 0. */
static void what_may_differ_is_refused(void **state) {
  (void)state;
  static tile_data first, got;
  random_source random = {6};
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    const refusal *one = &refusals[i];
    fill(&first, &random, 1);
    first.scores[(ROWS - 1) * PITCH + 3] = one->score;
    for (int j = 0; j < COLUMNS && !isnan(one->slopes); j++) first.slopes[(ROWS - 1) * PITCH + j] = one->slopes;
    EACH_LEVEL(got = first; sx_softmax_tile tile = tile_of(&got, one->n_seen, true); tile.hidden = one->hidden;
               if (run(&tile) != one->fits) fail_msg("case %d at %s", (int)i, sx_simd_name(simd));)
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tiles_have_the_bits_of_loops),
      cmocka_unit_test(what_may_differ_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
