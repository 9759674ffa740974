/* get C PATH: a tensor as .npy (version 1.0) on standard output, in blocks. NumPy has no bf16: those elements are
 * widened to f32, which changes no value. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "open.h"

enum { BLOCK_BYTES = 32 << 20 }; /* of a checkpoint on S3 several parts, asked for in parallel */

static const char *const type_names[CKPT_N_DTYPES] = {
    [CKPT_BOOL] = "|b1", [CKPT_U8] = "|u1",  [CKPT_I8] = "|i1", [CKPT_U16] = "u2", [CKPT_I16] = "i2",
    [CKPT_F16] = "f2",   [CKPT_BF16] = "f4", [CKPT_U32] = "u4", [CKPT_I32] = "i4", [CKPT_F32] = "f4",
    [CKPT_U64] = "u8",   [CKPT_I64] = "i8",  [CKPT_F64] = "f8"};

/* Elements are written in this machine's byte order, which the header names. */
static char byte_order(void) {
  const uint16_t probe = 1;
  unsigned char first;
  memcpy(&first, &probe, 1);
  return first == 1 ? '<' : '>';
}

static void print_header(const ckpt_tensor *tensor) {
  const char *type = type_names[tensor->dtype];
  char dims[CKPT_MAX_RANK * 24] = "";
  for (int i = 0; i < tensor->rank; i++) {
    size_t used = strlen(dims);
    snprintf(dims + used, sizeof dims - used, "%" PRId64 "%s", tensor->dims[i], i + 1 < tensor->rank ? ", " : "");
  }
  char *header = type[0] == '|' ? tool_text("{'descr': '%s', 'fortran_order': False, 'shape': (%s%s), }", type, dims,
                                            tensor->rank == 1 ? "," : "")
                                : tool_text("{'descr': '%c%s', 'fortran_order': False, 'shape': (%s%s), }",
                                            byte_order(), type, dims, tensor->rank == 1 ? "," : "");
  size_t n = strlen(header), padding = 63 - (10 + n) % 64, total = n + padding + 1;
  const unsigned char start[10] = {
      0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(total & 255), (unsigned char)(total >> 8)};
  fwrite(start, 1, sizeof start, stdout);
  printf("%s%*s\n", header, (int)padding, "");
  free(header);
}

/* In place, from the end: n elements of two bytes become n of four. */
static void widen(unsigned char *elements, size_t n) {
  for (size_t i = n; i-- > 0;) {
    uint16_t narrow;
    memcpy(&narrow, elements + 2 * i, sizeof narrow);
    uint32_t wide = (uint32_t)narrow << 16;
    memcpy(elements + 4 * i, &wide, sizeof wide);
  }
}

static int print_elements(const ckpt_tensors *tensors, const ckpt_tensor *tensor) {
  size_t width = ckpt_dtype_n_bytes(tensor->dtype), wide = tensor->dtype == CKPT_BF16 ? 4 : width;
  size_t most = tensor->n_elements < BLOCK_BYTES / wide ? (size_t)tensor->n_elements : BLOCK_BYTES / wide;
  unsigned char *room = tool_memory(malloc(most * wide + 1));
  int status = TOOL_DONE;
  for (uint64_t done = 0; !status && done < tensor->n_elements && !ferror(stdout);) {
    size_t n = tensor->n_elements - done < most ? (size_t)(tensor->n_elements - done) : most;
    ckpt_error error;
    if (ckpt_tensors_read(room, tensors, tensor, done, n, &error) != CKPT_OK) status = tool_fail_ckpt(&error);
    if (tensor->dtype == CKPT_BF16) widen(room, n);
    if (!status) fwrite(room, wide, n, stdout);
    done += n;
  }
  free(room);
  return status;
}

static int get(const ckpt_checkpoint *checkpoint, const char *path, bool state) {
  const ckpt_tensors *parameters = ckpt_checkpoint_parameters(checkpoint), *states = ckpt_checkpoint_states(checkpoint);
  const ckpt_tensors *holder = state ? states : parameters;
  const ckpt_tensor *tensor = NULL;
  ckpt_error error;
  ckpt_status status = ckpt_tensors_find(&tensor, holder, path, &error);
  if (status != CKPT_OK && !state && ckpt_tensors_find(&tensor, states, path, NULL) == CKPT_OK) {
    holder = states;
    status = CKPT_OK;
  }
  if (status != CKPT_OK) return tool_fail_ckpt(&error);
  print_header(tensor);
  return print_elements(holder, tensor);
}

int command_get(int argc, char **argv) {
  bool state = false;
  const tool_setting settings[] = {
      {"state", 0, NULL, NULL, TOOL_FLAG, &state, "the state of that path, where a parameter has it too"}};
  const tool_command_usage usage = {"sexpgpu-checkpoint get",
                                    "C PATH",
                                    "Writes a tensor as .npy to standard output; bf16 widened to f32.",
                                    settings,
                                    1,
                                    2,
                                    2};
  tool_list operands;
  bool exit_now = false;
  ckpt_checkpoint *checkpoint = NULL;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  if (!status && !exit_now) status = command_refuse_terminal(stdout, "a tensor");
  if (!status && !exit_now) status = checkpoint_open_or_say(&checkpoint, operands.items[0]);
  if (checkpoint) status = get(checkpoint, operands.items[1], state);
  ckpt_checkpoint_close(checkpoint);
  tool_list_free(&operands);
  return status;
}
