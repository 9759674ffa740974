/* The experiment's files: read, put in order, and searched for what they define. */
#ifndef SX_LANG_LOAD_H
#define SX_LANG_LOAD_H

#include "evaluator.h"

/* Reads the prelude: its functions are translated when they are first used. */
bool sx_load_prelude(sx_evaluator *evaluator);
/* Reads the file and what it includes: fills forms, declarations and the user's names. False: errors. */
bool sx_load_file(sx_evaluator *evaluator, const char *path);
/* Evaluates one of evaluator->forms; an error is reported and poisons what the form defines. */
void sx_evaluate_form(sx_evaluator *evaluator, const sx_datum *form);

/* The declaration of that name, or NULL. */
sx_declaration *sx_find_declaration(sx_evaluator *evaluator, sx_declaration_kind kind, const char *name);
/* "a, b, c": the names declared. */
const char *sx_list_declarations(sx_evaluator *evaluator, sx_declaration_kind kind);

#endif
