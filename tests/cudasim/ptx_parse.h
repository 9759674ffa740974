/* What the reading of PTX shares: the place in the text, what is declared, the kernel that grows. */
#ifndef SIM_PTX_PARSE_H
#define SIM_PTX_PARSE_H

#include <setjmp.h>

#include "ptx_internal.h"

/* A piece of the text. */
typedef struct sim_word {
  const char *at;
  size_t n;
} sim_word;

/* .reg .b32 %r<59>: names %r0 to %r58; n = 0: one register of that name. */
typedef struct sim_declared {
  sim_word name;
  uint32_t n, first, units; /* where the first lies, how many units each takes */
  uint8_t width;
} sim_declared;

typedef struct sim_label {
  sim_word name;
  uint32_t op; /* or the first entry of a branch table */
  uint32_t next, n_entries;
} sim_label;

/* A branch whose label is not known yet. */
typedef struct sim_fixup {
  sim_word name;
  uint32_t at, line;
  bool is_table, is_entry; /* an entry: at is an index into the kernel's targets */
} sim_fixup;

typedef struct sim_constant {
  uint64_t bits;
  sim_operand operand;
  uint32_t next;
  uint8_t width;
  bool is_dynamic; /* bits are an offset into dynamic shared memory */
} sim_constant;

/* A growing array. */
typedef struct sim_list {
  void *items;
  size_t n, room;
} sim_list;

/* The next item, zeroed; ends the program when memory does. */
void *sim_list_add(sim_list *list, size_t size);

enum { SIM_N_BUCKETS = 256, SIM_MOST_VECTOR = 4 };

typedef struct sim_reader {
  const char *at;
  uint32_t line;
  sim_module *module;
  char *problem;
  size_t n_problem;
  jmp_buf failed;

  sim_list variables; /* of sim_variable: the module's, then the kernel's */
  size_t n_module_variables;
  sim_list kernels; /* of sim_kernel */

  /* Of the kernel that is read. */
  sim_kernel *kernel;
  sim_list ops, targets, params, declared, labels, fixups, constants;
  sim_list param_names;                                                   /* of sim_word */
  uint32_t label_buckets[SIM_N_BUCKETS], constant_buckets[SIM_N_BUCKETS]; /* 1 + index; 0: none */
  sim_word guard;
  bool guard_is_negated;
} sim_reader;

/* Does not return. The line of the text is told with it. */
_Noreturn void sim_parse_refuse(sim_reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- words ---- */

char sim_peek(sim_reader *r); /* the next character that is neither space nor comment; 0 at the end */
bool sim_take(sim_reader *r, char c);
void sim_expect(sim_reader *r, char c);
sim_word sim_take_word(sim_reader *r); /* letters, digits, _ $ % . and :: */
uint64_t sim_take_integer(sim_reader *r);
bool sim_word_is(sim_word word, const char *text);
bool sim_words_equal(sim_word a, sim_word b);
void sim_skip_past(sim_reader *r, char c);

/* ---- what the decoder asks for ---- */

sim_operand sim_new_register(sim_reader *r, uint8_t width);
sim_operand sim_constant_operand(sim_reader *r, uint64_t bits, uint8_t width);
const sim_declared *sim_find_register(sim_reader *r, sim_word name, sim_operand *operand); /* NULL: none */
sim_variable *sim_find_variable(sim_reader *r, sim_word name);                             /* NULL: none */
/* Its address in its space plus offset; shared memory gets its place at its first use in a kernel. */
sim_operand sim_variable_operand(sim_reader *r, sim_variable *variable, uint64_t offset, uint8_t width);
bool sim_find_param(sim_reader *r, sim_word name, uint64_t *offset);
sim_op *sim_add_op(sim_reader *r, sim_code code);
void sim_add_fixup(sim_reader *r, sim_word name, uint32_t at, bool is_table, bool is_entry);

/* Reads one instruction whose opcode was taken, to the semicolon. */
void sim_decode(sim_reader *r, sim_word opcode);

#endif
