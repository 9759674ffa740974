/* Datasets: records of typed fields, read from the host's files at any position of any epoch.
 *
 * A dataset is a list of shards; a shard has for each field the bytes of its records at a fixed distance.
 * Values are read and checked when a record is used, not when the dataset is opened. */
#ifndef SX_RUN_DATASET_H
#define SX_RUN_DATASET_H

#include "../lang/program.h"
#include "encoding.h"
#include "files.h"

/* Records of one field in one shard. */
typedef struct sx_part {
  const unsigned char *bytes;
  uint64_t record_stride; /* bytes from a record to the next */
  sx_encoding encoding;
  const char *path; /* of the file */
} sx_part;

typedef struct sx_shard {
  int64_t n_records, first; /* first: number of records of the shards before it */
  sx_part *parts;           /* one a field */
} sx_shard;

typedef struct sx_dataset {
  const sx_data *data;
  sx_files files;
  sx_field_type *fields;
  uint32_t n_fields;
  int64_t *n_elements, *n_bytes; /* of a record, one a field; bytes as a graph sees it */
  SX_VEC(sx_shard) shards;
  int64_t n_total;  /* records of all shards */
  int64_t begin, n; /* used: begin to begin + n - 1 */
  uint64_t key;     /* of the shuffle */
} sx_dataset;

/* A dataset to be opened; everything is in the arena. Closed also when it could not be opened, or when an
 * allocation failed meanwhile. */
sx_dataset *sx_dataset_new(const sx_data *data, const sexp_host *host, sx_arena *arena);
void sx_dataset_close(sx_dataset *dataset);
/* Opens its files and fills it in; run_seed is the order's seed unless the data have their own. False:
 * errors are in diags. */
bool sx_dataset_open(sx_dataset *dataset, int64_t run_seed, sx_diags *diags);

/* The first file that it opened. */
const sx_file *sx_dataset_first_file(const sx_dataset *dataset);
const char *sx_data_order(const sx_data *data); /* "sequential" "shuffled" */

/* Number (from 0, over all shards) of the record at a position of the endless sequence of epochs. */
int64_t sx_dataset_record(const sx_dataset *dataset, int64_t position);

/* Why a record could not be read. */
typedef struct sx_read_problem {
  sx_code code;     /* SX_E_DATA_HOST: a failure of the host; else the message alone */
  const char *path; /* of the file */
  sexp_failure failure;
} sx_read_problem;

/* Reads one field of a record. False: *why is filled. */
bool sx_dataset_read(const sx_dataset *dataset, int64_t record, uint32_t field, void *out, sx_read_problem *why);
/* Whether all files are as they were. False: *why is filled. */
bool sx_dataset_check(const sx_dataset *dataset, sx_read_problem *why);
void sx_report_read_problem(sx_diags *diags, sx_span span, const sx_read_problem *why);

/* ---- for the kinds of source ---- */

/* Appends a shard whose fields must be those of the first. False: an error is in diags. */
bool sx_dataset_append(sx_dataset *dataset, const sx_field_type *fields, uint32_t n_fields, sx_part *parts,
                       int64_t n_records, const char *path, sx_diags *diags);

/* Opens one shard and appends it. data: the dataset's, or that of one shard of a manifest. */
typedef bool sx_open_shard(sx_dataset *dataset, const sx_data *data, sx_diags *diags);
sx_open_shard sx_open_arrays, sx_open_windows, sx_open_idx, sx_open_csv, sx_open_manifest;

#endif
