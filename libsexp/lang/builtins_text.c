/* Texts, and what speaks to the user: print, assert, error. */
#include <string.h>

#include "../base/glob.h"
#include "call.h"

/* The arguments from `first` on as one text with `between` them. NULL: over the budget. */
static const char *join(const sx_call *call, uint32_t first, const char *between) {
  sx_text text;
  sx_text_init(&text, call->evaluator->arena);
  for (uint32_t i = first; i < call->n; i++) {
    size_t before = text.n;
    if (i > first) sx_text_add(&text, between);
    sx_value_display(&text, &call->args[i]);
    if (!sx_spend(call->evaluator, (text.n - before) / SX_STEP_BYTES + 1)) return NULL;
  }
  return sx_text_get(&text);
}

static bool str(sx_call *call, sx_value *result) {
  const char *text = join(call, 0, "");
  if (text) *result = sx_string(text);
  return text != NULL;
}

static bool path(sx_call *call, sx_value *result) {
  for (uint32_t i = 0; i < call->n; i++)
    if (!sx_is_text(&call->args[i]) && call->args[i].kind != SX_KIND_INTEGER)
      return sx_expected(call, &call->args[i], "a text or an integer");
  const char *text = join(call, 0, "/");
  if (text) *result = sx_string(text);
  return text != NULL;
}

static bool matches(sx_call *call, sx_value *result) {
  const char *glob, *text;
  if (!sx_get_text(call, &call->args[0], "the pattern", &glob)) return false;
  if (!sx_get_text(call, &call->args[1], "the text", &text)) return false;
  if (!sx_spend(call->evaluator, strlen(glob) * (uint64_t)strlen(text) / 64)) return false;
  *result = sx_boolean(sx_glob_matches(glob, text));
  return true;
}

/* Gives its last argument, so that it can be put around any expression. */
static bool print(sx_call *call, sx_value *result) {
  const char *line = join(call, 0, " ");
  if (!line) return false;
  const sx_language_host *host = call->evaluator->host;
  if (host->print) host->print(host->context, line);
  *result = call->n ? call->args[call->n - 1] : sx_boolean(true);
  return true;
}

static bool fail_with(const sx_call *call, sx_code code, const char *message) {
  sx_fail(call->evaluator, code, sx_head_span(call->at), "%s", message);
  return false;
}

static bool assert_holds(sx_call *call, sx_value *result) {
  bool holds;
  if (!sx_get_boolean(call, &call->args[0], "the condition", &holds)) return false;
  *result = sx_boolean(true);
  if (holds) return true;
  if (call->n > 1) {
    const char *message = join(call, 1, "");
    return message ? fail_with(call, SX_E_EVAL_ASSERT, message) : false;
  }
  sx_text text;
  sx_text_init(&text, call->evaluator->arena);
  sx_text_add(&text, "does not hold: ");
  bool whole = call->at && call->at->kind == SX_DATUM_LIST && call->at->n == 2;
  if (whole) sx_datum_print(&text, call->at->items[1]);
  return fail_with(call, SX_E_EVAL_ASSERT, sx_text_get(&text));
}

static bool error(sx_call *call, sx_value *result) {
  (void)result;
  const char *message = join(call, 0, "");
  return message ? fail_with(call, SX_E_EVAL_ERROR, message) : false;
}

const sx_builtin sx_builtins_text[] = {
    {"str", 0, -1, str, "(str a b ...)", 0, NULL},
    {"path", 1, -1, path, "(path part ...)", 0, NULL},
    {"matches", 2, 2, matches, "(matches pattern text)", 0, NULL},
    {"print", 0, -1, print, "(print a b ...)", 0, NULL},
    {"assert", 1, -1, assert_holds, "(assert condition message ...)", 0, NULL},
    {"error", 0, -1, error, "(error message ...)", 0, NULL},
    {NULL, 0, 0, NULL, NULL, 0, NULL},
};
