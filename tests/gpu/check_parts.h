/* Pieces of check_operations: each computes something on the device and compares it. */
#ifndef TEST_GPU_CHECK_PARTS_H
#define TEST_GPU_CHECK_PARTS_H

#ifdef SX_CUDA
#include "on_device.h"

enum { CHECK_CASES_MOST = 32, CHECK_PIECES_MOST = 400 };

typedef struct check_options {
  int cases;          /* of each operation */
  int graphs;         /* random ones */
  int candidates;     /* of each choice, at most */
  const char *cubins; /* NULL: compiled kernels are not kept */
} check_options;

typedef struct check_result {
  bool good;
  char what[200]; /* for the table: "4 cases" */
  char why[1400]; /* of a failure */
} check_result;

typedef struct check_piece check_piece;
typedef void check_function(check_result *result, gpu_device *gpu, const check_piece *piece,
                            const check_options *options);
struct check_piece {
  char name[120];
  bool portable; /* on a device that is opened so */
  check_function *check;
  int number; /* the operation, the seed, the row of a table */
};

/* Add pieces behind the n that are there; the new number of pieces. Portable ones first. */
size_t check_single_pieces(check_piece *pieces, size_t n);
size_t check_graph_pieces(check_piece *pieces, size_t n, const check_options *options);
size_t check_library_pieces(check_piece *pieces, size_t n);

/* The result is a failure with this reason, unless it is one already; false. */
bool check_failed(check_result *result, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Fails where bytes differ, naming the first element that does. NaNs of both become the one NaN. */
bool check_bits(check_result *result, const char *what, sx_dtype dtype, void *got, void *want, int64_t n);
double check_now(void);
#endif

#endif
