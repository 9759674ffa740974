/* A host for an experiment out of a checkpoint: its texts come from memory under their recorded names, and relative
 * names of other files are taken from a folder, so that nothing of the experiment but its data need be there. */
#ifndef TOOL_RECORDED_H
#define TOOL_RECORDED_H

#include "../../libckpt/ckpt.h"
#include "../../libsexp/sexp.h"

typedef struct tool_recorded tool_recorded;

/* Around another host, whose context must outlive it. The texts are copied; root NULL: the working directory. NULL: out
 * of memory. */
tool_recorded *tool_recorded_new(const sexp_host *inner, const ckpt_text_file *texts, size_t n_texts, const char *root);
/* The host to give to libsexp. */
sexp_host tool_recorded_host(tool_recorded *recorded);
/* After all its files are closed; NULL is fine. */
void tool_recorded_free(tool_recorded *recorded);

#endif
