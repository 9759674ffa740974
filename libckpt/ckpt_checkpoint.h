/* Checkpoints: writing, listing, reading, verifying, comparing, copying, removing. Included by ckpt.h, whose
 * conventions hold here.
 *
 *     ckpt_checkpoint *checkpoint = NULL;
 *     ckpt_status status = ckpt_checkpoint_open_path(&checkpoint, "runs/tiny/step-100", NULL, &error);
 *     if (status == CKPT_OK) status = ckpt_checkpoint_verify(checkpoint, &error);
 *     ckpt_checkpoint_close(checkpoint);
 */
#ifndef CKPT_CHECKPOINT_H
#define CKPT_CHECKPOINT_H

#include "ckpt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What a checkpoint says ---- */

typedef struct ckpt_text_file {
  const char *name, *text;
} ckpt_text_file;
typedef struct ckpt_knob {
  const char *name, *value, *source;
} ckpt_knob; /* value: JSON text */
typedef struct ckpt_data_source {
  const char *name, *source; /* the defdata; the file or s3:// object */
  uint64_t size;
  const char *version;
} ckpt_data_source;
typedef struct ckpt_file_entry { /* a file of the checkpoint */
  const char *name;
  uint64_t size;
  char sha256[CKPT_SHA256_TEXT];
} ckpt_file_entry;

/* What experiment.json says. A text that is NULL is written as null. */
typedef struct ckpt_experiment {
  const char *slug;
  const ckpt_text_file *sources; /* the experiment file, then its includes */
  size_t n_sources;
  const char *run, *variant;
  const ckpt_knob *knobs;
  size_t n_knobs;
  int64_t step, records, stage, seed;
  const char *identity;
  const ckpt_array *parameters, *states; /* in any order; when read, in order and without data */
  size_t n_parameters, n_states;
  const ckpt_data_source *data;
  size_t n_data;
  int64_t gpus, nodes;
  const char *choices;                   /* JSON text */
  const char *tool_version, *tool_build; /* of the program that wrote it */
  const char *created;                   /* RFC 3339, UTC */
  const char *extra;            /* JSON object whose members are added; when read, the members not known here */
  const ckpt_file_entry *files; /* filled by the writer */
  size_t n_files;
  char digest[CKPT_SHA256_TEXT]; /* filled by the writer */
} ckpt_experiment;

/* Writes the members of experiment.json into the object that `json` is in: all of them (but the seal), or what is known
 * before the first step and the same on every machine (without step, records, stage, files, digest, created,
 * tool_build). What cannot be written (a text that is not UTF-8, a value that is no JSON) is null there, and the
 * status says so. Arrays need no data. */
typedef enum ckpt_experiment_part { CKPT_WHOLE, CKPT_BEFORE_STEP_1 } ckpt_experiment_part;
ckpt_status ckpt_experiment_write(ckpt_json *json, const ckpt_experiment *experiment, ckpt_experiment_part part);

/* ---- Places, writing, reading ---- */

/* A place of checkpoints: a directory, or s3://bucket/prefix. Several writers may work in one directory, but below one
 * prefix a single one: it ends the unfinished uploads that it finds. */
typedef struct ckpt_location ckpt_location;

/* Opens `name`, an s3:// one with s3, which must outlive the location. With `create`, makes a directory and its
 * parents, and finds out whether the place can be written: below a prefix the object `.sexpgpu-probe` is written and
 * removed. Errors: E-CKPT-002, E-S3-001, those of object storage. */
ckpt_status ckpt_location_open(ckpt_location **out, const char *name, bool create, ckpt_s3 *s3, ckpt_error *error);
void ckpt_location_close(ckpt_location *location);

/* Ends what killed writers left, as every write does first: temporary directories, and on S3 the unfinished multipart
 * uploads of files of checkpoints. How many. Errors: those of object storage. */
ckpt_status ckpt_location_clean(int64_t *n_out, ckpt_location *location, ckpt_error *error);

typedef struct ckpt_entry {
  int64_t step;
  bool complete; /* experiment.json is there and whole, and the files it lists have their sizes */
} ckpt_entry;

/* The step-<n> of a location in ascending order of n; the array is freed with free(). Errors: E-CKPT-002, -003. */
ckpt_status ckpt_checkpoint_list(ckpt_entry **out, size_t *n_out, ckpt_location *location, ckpt_error *error);

typedef struct ckpt_write_options {
  int64_t keep;           /* 0: keep all; else how many of this and the complete ones before it to keep */
  uint64_t shard_n_bytes; /* tensors a file; 0: 5 GB */
} ckpt_write_options;
#define CKPT_WRITE_OPTIONS ((ckpt_write_options){.keep = 0, .shard_n_bytes = 0})

typedef struct ckpt_written {
  char digest[CKPT_SHA256_TEXT];
  uint64_t n_bytes;  /* of all files */
  int64_t n_removed; /* older checkpoints */
  ckpt_error prune;  /* why an older one could not be removed (the new one is written all the same) */
} ckpt_written;

/* Writes step-<experiment->step>: parameters.safetensors, states.safetensors, experiment.json. It appears at once and
 * whole; one that is there already is replaced. A failure leaves nothing behind, nor does a killed writer after the
 * next write. Several writers may work in one location. `written` may be NULL. Hashes in threads of its own, which have
 * ended when it returns; `fill` of an array is called by the caller's thread alone.
 * Errors: E-CKPT-003 to E-CKPT-006. Repeats: the files depend on the experiment alone. */
ckpt_status ckpt_checkpoint_write(ckpt_written *written, ckpt_location *location, const ckpt_experiment *experiment,
                                  const ckpt_write_options *options, ckpt_error *error);

typedef struct ckpt_checkpoint ckpt_checkpoint;

/* Opens a step-<n> by step (CKPT_LATEST: the newest complete one), or by the path of its directory. experiment.json
 * is checked whole, the files' sizes, and that dtypes and shapes agree. Errors: E-CKPT-007 to E-CKPT-011,
 * E-CKPT-013, E-CKPT-015, E-CKPT-030, those of ckpt_tensors_open. */
#define CKPT_LATEST (-1)
ckpt_status ckpt_checkpoint_open(ckpt_checkpoint **out, ckpt_location *location, int64_t step, ckpt_error *error);
ckpt_status ckpt_checkpoint_open_path(ckpt_checkpoint **out, const char *path, ckpt_s3 *s3, ckpt_error *error);
void ckpt_checkpoint_close(ckpt_checkpoint *checkpoint);

/* Opens a file of the experiment's list, as it is stored. Errors: E-CKPT-011, those of object storage. */
ckpt_status ckpt_checkpoint_file(ckpt_file **out, const ckpt_checkpoint *checkpoint, size_t index, ckpt_error *error);

/* Fetches the files of a checkpoint on S3, once, into the client's scratch directory: from then on its tensors have
 * `data`. Without it ckpt_tensors_read asks for the range it needs. Nothing to do for a local one. Errors: E-S3-021,
 * those of object storage. */
ckpt_status ckpt_checkpoint_fetch(ckpt_checkpoint *checkpoint, ckpt_error *error);

const char *ckpt_checkpoint_path(const ckpt_checkpoint *checkpoint); /* of its directory */
uint64_t ckpt_checkpoint_n_bytes(const ckpt_checkpoint *checkpoint); /* of its files, experiment.json too */
const char *ckpt_checkpoint_text(const ckpt_checkpoint *checkpoint, size_t *n_out); /* experiment.json as it stands */
const ckpt_experiment *ckpt_checkpoint_experiment(const ckpt_checkpoint *checkpoint);
const ckpt_tensors *ckpt_checkpoint_parameters(const ckpt_checkpoint *checkpoint);
const ckpt_tensors *ckpt_checkpoint_states(const ckpt_checkpoint *checkpoint);

/* Reads everything: each file's SHA-256, and beside that, in another thread, the digest. Errors: E-CKPT-012,
 * E-CKPT-014, E-DATA-102, E-DATA-104. */
ckpt_status ckpt_checkpoint_verify(const ckpt_checkpoint *checkpoint, ckpt_error *error);

/* The digest of the tensors as they are now, whatever experiment.json says. Errors: E-DATA-102, E-DATA-104. */
ckpt_status ckpt_checkpoint_digest(char out[CKPT_SHA256_TEXT], const ckpt_checkpoint *checkpoint, ckpt_error *error);

/* ---- Comparing ---- */

typedef struct ckpt_difference {
  uint64_t n_differing; /* elements with other bits; two NaNs are equal, +0 and -0 are not */
  uint64_t first;       /* row-major index of the first of them */
  uint64_t n_nan;       /* of them, those where one of the two is a NaN */
  uint64_t max_ulps;    /* of the others, floats between the two at most; 0 between +0 and -0, and for integers */
  double max_value;     /* of the others, the largest |left - right| */
} ckpt_difference;

/* Compares two tensors of one dtype and shape; reads them in blocks, in constant memory.
 * Errors: E-CKPT-005 (dtype or shape differs), E-DATA-102, E-DATA-104. */
ckpt_status ckpt_tensors_compare(ckpt_difference *out, const ckpt_tensors *left_of, const ckpt_tensor *left,
                                 const ckpt_tensors *right_of, const ckpt_tensor *right, ckpt_error *error);

/* ---- Copying and removing ---- */

typedef struct ckpt_copy_options {
  bool replace; /* another complete checkpoint of that step */
} ckpt_copy_options;
#define CKPT_COPY_OPTIONS ((ckpt_copy_options){.replace = false})

typedef struct ckpt_copied {
  uint64_t n_bytes;      /* written */
  uint64_t n_bytes_kept; /* of whole files that an earlier copy, cut short, had left */
  bool already;          /* the same checkpoint was there, and verifies: nothing was done */
} ckpt_copied;

/* Copies a checkpoint into a location as step-<n>, byte for byte. Each file's SHA-256 is checked on the way. It appears
 * at once and whole. A torn step-<n> is replaced. What a copy that was killed or ran into an error of the system had
 * finished is kept beside it and used by the next one. `copied` may be NULL.
 * Errors: E-CKPT-003, E-CKPT-004, E-CKPT-011, E-CKPT-012, E-CKPT-031, E-DATA-102, E-DATA-104. */
ckpt_status ckpt_checkpoint_copy(ckpt_copied *copied, ckpt_location *to, const ckpt_checkpoint *from,
                                 const ckpt_copy_options *options, ckpt_error *error);

/* Removes step-<step>; a torn one only if nothing but files of checkpoints is in it. Errors: E-CKPT-004. */
ckpt_status ckpt_checkpoint_remove(ckpt_location *location, int64_t step, ckpt_error *error);

#ifdef __cplusplus
}
#endif
#endif
