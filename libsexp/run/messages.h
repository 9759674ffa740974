/* Messages: diagnostics as the caller of the library gets them, with memory of their own. */
#ifndef SX_RUN_MESSAGES_H
#define SX_RUN_MESSAGES_H

#include "../read/datum.h"
#include "../sexp.h"

/* Adds every diagnostic of the list. *messages is made where it is NULL. The result is `status`, or
 * SEXP_NO_MEMORY when there was not enough to say so. sources may be NULL where no span is used. */
sexp_status sx_messages_add(sexp_messages **messages, const sx_memory *memory, const sx_diags *diags,
                            const sx_sources *sources, sexp_status status);
/* Adds E-RUN-001; needs no memory. Gives SEXP_NO_MEMORY. */
sexp_status sx_messages_no_memory(sexp_messages **messages);
/* SEXP_OK without errors, SEXP_STORAGE where the first is one of files, SEXP_DEVICE of a device, else SEXP_INPUT. */
sexp_status sx_status_of(const sx_diags *diags);

#endif
