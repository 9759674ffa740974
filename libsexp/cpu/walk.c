/* Reading views: run by run of the innermost loop, and in square blocks where the memory runs along another
 * loop, so that a transposition reads and writes whole cache lines. */
#include "walk.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
  SIDE = 16,              /* elements of a block's side */
  STRIP = 1024,           /* rows that are written while a band of columns is read */
  STREAM_BYTES = 4 << 20, /* results from here on are written past the cache */
  COPY_GRAIN = 1 << 14
};

sx_walk sx_walk_make(const sx_view *view, const sx_node *node) {
  sx_walk walk = {.bytes = (int)sx_dtype_bytes(node->dtype), .n = sx_node_elements(node), .offset = view->offset};
  for (int i = 0; i < node->rank; i++) {
    int64_t dim = node->dims[i], stride = view->strides[i];
    if (dim == 1) continue;
    if (walk.rank && walk.strides[walk.rank - 1] == stride * dim) {
      walk.dims[walk.rank - 1] *= dim;
      walk.strides[walk.rank - 1] = stride;
      continue;
    }
    walk.dims[walk.rank] = dim;
    walk.strides[walk.rank++] = stride;
  }
  if (walk.rank && walk.n) return walk;
  walk.rank = 1;
  walk.dims[0] = walk.n;
  walk.strides[0] = 1;
  return walk;
}

/* Splits i into an index of the loops; gives where it lies. */
static int64_t start(const sx_walk *walk, int64_t i, int64_t *index) {
  int64_t at = walk->offset;
  for (int axis = walk->rank - 1; axis > 0; axis--) {
    index[axis] = i % walk->dims[axis];
    i /= walk->dims[axis];
    at += index[axis] * walk->strides[axis];
  }
  index[0] = i;
  return at + i * walk->strides[0];
}

int64_t sx_walk_at(const sx_walk *walk, int64_t i) {
  int64_t index[SX_RANK_MAX];
  return start(walk, i, index);
}

/* The innermost loop has run out: the next element's place, from that of the element past the loop's end. */
static int64_t carry(const sx_walk *walk, int64_t at, int64_t *index) {
  for (int axis = walk->rank - 1; axis > 0 && index[axis] == walk->dims[axis]; axis--) {
    at += walk->strides[axis - 1] - walk->dims[axis] * walk->strides[axis];
    index[axis] = 0;
    index[axis - 1]++;
  }
  return at;
}

typedef uint8_t __attribute__((may_alias)) bits8;
typedef uint16_t __attribute__((may_alias)) bits16;
typedef uint32_t __attribute__((may_alias)) bits32;

/* n elements `stride` apart, one after the other to `to`. Long runs of one value are copied from their own
 * beginning, twice as much each time: the C library's copy is wider than what this file is compiled for. */
#define DEFINE_RUN(type)                                                                                         \
  static inline void fill_##type(type *to, type value, int64_t n) {                                              \
    int64_t done = n < 32 ? n : 32;                                                                              \
    for (int64_t i = 0; i < done; i++) to[i] = value;                                                            \
    for (; done < n; done *= 2) memcpy(to + done, to, (size_t)(done < n - done ? done : n - done) * sizeof *to); \
  }                                                                                                              \
  static inline void run_##type(type *to, const type *from, int64_t stride, int64_t n) {                         \
    if (stride == 1 && n >= 32)                                                                                  \
      memcpy(to, from, (size_t)n * sizeof *to);                                                                  \
    else if (stride == 0)                                                                                        \
      fill_##type(to, from[0], n);                                                                               \
    else                                                                                                         \
      for (int64_t i = 0; i < n; i++) to[i] = from[i * stride];                                                  \
  }
DEFINE_RUN(bits8)
DEFINE_RUN(bits16)
DEFINE_RUN(bits32)

#define DEFINE_READ(type)                                                                                \
  static void read_##type(const sx_walk *walk, const type *from, int64_t begin, int64_t end, type *to) { \
    int64_t index[SX_RANK_MAX], at = start(walk, begin, index);                                          \
    int last = walk->rank - 1;                                                                           \
    for (int64_t n = end - begin; n > 0;) {                                                              \
      int64_t left = walk->dims[last] - index[last], take = left < n ? left : n;                         \
      run_##type(to, from + at, walk->strides[last], take);                                              \
      to += take;                                                                                        \
      n -= take;                                                                                         \
      if (!n) break;                                                                                     \
      index[last] += take;                                                                               \
      at = carry(walk, at + take * walk->strides[last], index);                                          \
    }                                                                                                    \
  }
DEFINE_READ(bits8)
DEFINE_READ(bits16)
DEFINE_READ(bits32)

void sx_walk_read(const sx_walk *walk, const void *buffer, int64_t begin, int64_t end, void *to) {
  switch (walk->bytes) {
    case 1:
      read_bits8(walk, buffer, begin, end, to);
      break;
    case 2:
      read_bits16(walk, buffer, begin, end, to);
      break;
    default:
      read_bits32(walk, buffer, begin, end, to);
      break;
  }
}

typedef struct copy {
  const sx_walk *walk;
  const char *from; /* the buffer's start */
  char *to;
  int across;   /* blocks: the loop along which memory runs */
  bool streams; /* blocks: whole lines may be written past the cache */
} copy;

static void copy_range(void *context, int64_t begin, int64_t end, int thread) {
  const copy *c = context;
  (void)thread;
  sx_walk_read(c->walk, c->from, begin, end, c->to + begin * c->walk->bytes);
}

/* A row of a block. Past the cache, a line need not be read before it is written. */
static inline void write_row(void *to, const void *row, size_t n_bytes, bool streams) {
#if defined(__SSE2__)
  if (streams) {
    for (size_t at = 0; at < n_bytes; at += 16)
      _mm_stream_si128((__m128i *)(void *)((char *)to + at),
                       _mm_loadu_si128((const __m128i *)(const void *)((const char *)row + at)));
    return;
  }
#endif
  (void)streams;
  memcpy(to, row, n_bytes);
}

/* One block: rows of the walk's loop `across`, columns of its last loop. A row of the source is one cache line,
 * and lines a power of two apart push each other out of the cache, so each is read once, whole. */
#define DEFINE_BLOCK(type)                                                                                \
  static void block_##type(type *to, int64_t to_row, const type *from, int64_t from_column, int64_t rows, \
                           int64_t columns, bool streams) {                                               \
    type block[SIDE][SIDE];                                                                               \
    if (rows == SIDE && columns == SIDE) {                                                                \
      for (int64_t j = 0; j < SIDE; j++)                                                                  \
        for (int64_t i = 0; i < SIDE; i++) block[i][j] = from[i + j * from_column];                       \
      for (int64_t i = 0; i < SIDE; i++) write_row(to + i * to_row, block[i], sizeof block[i], streams);  \
      return;                                                                                             \
    }                                                                                                     \
    for (int64_t i = 0; i < rows; i++)                                                                    \
      for (int64_t j = 0; j < columns; j++) to[i * to_row + j] = from[i + j * from_column];               \
  }
DEFINE_BLOCK(bits8)
DEFINE_BLOCK(bits16)
DEFINE_BLOCK(bits32)

static void copy_block(const copy *c, int64_t to_at, int64_t from_at, int64_t to_row, int64_t rows, int64_t columns) {
  const sx_walk *walk = c->walk;
  int64_t from_column = walk->strides[walk->rank - 1];
  const void *from = c->from + from_at * walk->bytes;
  void *to = c->to + to_at * walk->bytes;
  switch (walk->bytes) {
    case 1:
      block_bits8(to, to_row, from, from_column, rows, columns, c->streams);
      break;
    case 2:
      block_bits16(to, to_row, from, from_column, rows, columns, c->streams);
      break;
    default:
      block_bits32(to, to_row, from, from_column, rows, columns, c->streams);
      break;
  }
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Strips of STRIP rows of the loop `across` by bands of SIDE columns of the last loop; strips, bands and the
 * other loops are numbered together, bands fastest but strips, so that what is read lies together. */
typedef struct cuts {
  int64_t strips, bands, n;
} cuts;

static cuts cut(const copy *c) {
  const sx_walk *walk = c->walk;
  int64_t rows = walk->dims[c->across], columns = walk->dims[walk->rank - 1];
  cuts all = {(rows + STRIP - 1) / STRIP, (columns + SIDE - 1) / SIDE, 0};
  all.n = walk->n / (rows * columns) * all.strips * all.bands;
  return all;
}

static void copy_strip(const copy *c, const cuts *all, int64_t number) {
  const sx_walk *walk = c->walk;
  int last = walk->rank - 1;
  int64_t row = number % all->strips * STRIP, column = number / all->strips % all->bands * SIDE;
  int64_t rest = number / (all->strips * all->bands), to_at = 0, from_at = walk->offset, size = 1, to_row = 1;
  for (int axis = last; axis >= 0; axis--) {
    int64_t index = axis == last ? column : row;
    if (axis == c->across) to_row = size;
    if (axis != c->across && axis != last) {
      index = rest % walk->dims[axis];
      rest /= walk->dims[axis];
    }
    to_at += index * size;
    from_at += index * walk->strides[axis];
    size *= walk->dims[axis];
  }
  int64_t n_rows = least(walk->dims[c->across] - row, STRIP), n_columns = least(walk->dims[last] - column, SIDE);
  for (int64_t i = 0; i < n_rows; i += SIDE)
    copy_block(c, to_at + i * to_row, from_at + i, to_row, least(n_rows - i, SIDE), n_columns);
}

static void copy_strips(void *context, int64_t begin, int64_t end, int thread) {
  const copy *c = context;
  cuts all = cut(c);
  (void)thread;
  for (int64_t number = begin; number < end; number++) copy_strip(c, &all, number);
#if defined(__SSE2__)
  if (c->streams) _mm_sfence();
#endif
}

static int loop_along_memory(const sx_walk *walk) {
  for (int axis = walk->rank - 2; axis >= 0; axis--)
    if (walk->strides[axis] == 1 && walk->dims[axis] >= SIDE) return axis;
  return -1;
}

void sx_walk_copy(const sx_walk *walk, const void *buffer, void *to, sx_pool *pool) {
  copy c = {.walk = walk, .from = buffer, .to = to, .across = loop_along_memory(walk)};
  int last = walk->rank - 1;
  int64_t stride = walk->strides[last];
  if (c.across < 0 || stride == 0 || stride == 1 || walk->dims[last] < SIDE / 2) {
    sx_pool_run(pool, walk->n, COPY_GRAIN, copy_range, &c);
    return;
  }
  int64_t line_bytes = walk->dims[last] * walk->bytes;
  c.streams = walk->n * walk->bytes >= STREAM_BYTES && line_bytes % 16 == 0 && (uintptr_t)to % 16 == 0;
  cuts all = cut(&c);
  sx_pool_run(pool, all.n, COPY_GRAIN * all.n / walk->n + 1, copy_strips, &c);
}
