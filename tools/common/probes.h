/* Bit probes of a run: those that it records, and how those that it takes from a record compare. */
#ifndef TOOL_PROBES_H
#define TOOL_PROBES_H

#include "../../libchoices/choices.h"
#include "../../libsexp/sexp.h"

typedef struct tool_probes {
  choices_probe *items; /* kinds, keys and values are borrowed */
  size_t n, room;
  size_t n_compared, n_match; /* with those of a record */
  char *mismatch;             /* the first that differs, "convolution KEY"; NULL: none does */
} tool_probes;

/* False: out of memory. */
bool tool_probes_add(tool_probes *probes, const choices_probe *probe);
/* NULL: there is none of this value. */
const choices_probe *tool_probes_find(const tool_probes *probes, const char *kind, const char *key, const char *value);

/* Probes what the run decided and the products that its device decides by itself: as `known` has them, else anew. What
 * cannot be probed, as for want of memory, has none. Of a run that is made and not stepped yet. */
void tool_probes_make(tool_probes *probes, const tool_probes *known, sexp_device *device, const sexp_run *run);
/* With those of the record that are of the same value. */
void tool_probes_compare(tool_probes *probes, const choices_record *record);
void tool_probes_free(tool_probes *probes);

#endif
