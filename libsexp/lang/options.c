#include "options.h"

#include <inttypes.h>
#include <string.h>

#include "call.h"
#include "names.h"

bool sx_option_fail(const sx_options *options, const sx_datum *at, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  sx_vfail(options->evaluator, options->code, at->span, format, arguments);
  va_end(arguments);
  return false;
}

static bool fail_unknown(const sx_options *options, const sx_datum *keyword, const char *const *names) {
  sx_evaluator *evaluator = options->evaluator;
  sx_nearest nearest = sx_nearest_begin(keyword->text);
  sx_text text;
  sx_text_init(&text, evaluator->arena);
  sx_text_add(&text, "there are");
  for (; *names; names++) {
    sx_nearest_add(&nearest, *names);
    sx_text_addf(&text, " :%s", *names);
  }
  sx_diag *diag = sx_fail(evaluator, options->code, keyword->span, "%s takes no keyword :%s",
                          options->form->items[0]->text, keyword->text);
  diag->hint = nearest.best ? sx_format(evaluator->arena, "did you mean :%s?", nearest.best) : sx_text_get(&text);
  return false;
}

bool sx_read_options(sx_options *options, sx_evaluator *evaluator, const sx_datum *form, uint32_t first, sx_code code,
                     const char *const *names) {
  *options = (sx_options){.evaluator = evaluator, .form = form, .code = code};
  bool good = true;
  for (uint32_t i = first; i < form->n; i += 2) {
    const sx_datum *keyword = form->items[i];
    if (keyword->kind != SX_DATUM_KEYWORD)
      return sx_option_fail(options, keyword, "%s: expected a keyword here", form->items[0]->text);
    if (i + 1 == form->n) return sx_option_fail(options, keyword, ":%s stands without a value", keyword->text);
    int option = 0;
    while (names[option] && strcmp(names[option], keyword->text) != 0) option++;
    if (!names[option])
      good = fail_unknown(options, keyword, names);
    else if (options->values[option])
      good = sx_option_fail(options, keyword, ":%s stands twice", keyword->text);
    else
      options->values[option] = form->items[i + 1];
  }
  return good;
}

void sx_check_options(sx_evaluator *evaluator, sx_declaration_kind kind, sx_code code, const char *const *names) {
  for (size_t i = 0; i < evaluator->declarations[kind].n; i++) {
    sx_options options;
    evaluator->form = evaluator->declarations[kind].items[i].form;
    sx_read_options(&options, evaluator, evaluator->form, 2, code, names);
  }
}

bool sx_option_value(const sx_options *options, const sx_datum *datum, sx_value *value) {
  return sx_evaluate_datum(options->evaluator, datum, value);
}

static bool fail_kind(const sx_options *options, const sx_datum *at, const char *what, const char *expected,
                      const sx_value *value) {
  return sx_option_fail(options, at, ":%s must be %s, found %s, %s", what, expected,
                        sx_kind_phrase((sx_kind)value->kind), sx_value_show(options->evaluator->arena, value));
}

bool sx_option_integer(const sx_options *options, int option, const char *what, int64_t lo, int64_t *integer) {
  const sx_datum *datum = options->values[option];
  sx_value value;
  if (!datum) return true;
  if (!sx_option_value(options, datum, &value)) return false;
  if (value.kind != SX_KIND_INTEGER) return fail_kind(options, datum, what, "an integer", &value);
  *integer = value.integer;
  return value.integer >= lo ||
         sx_option_fail(options, datum, ":%s must be at least %" PRId64 ", found %" PRId64, what, lo, value.integer);
}

bool sx_option_number(const sx_options *options, int option, const char *what, double *number) {
  const sx_datum *datum = options->values[option];
  sx_value value;
  if (!datum) return true;
  if (!sx_option_value(options, datum, &value)) return false;
  if (!sx_is_number(&value)) return fail_kind(options, datum, what, "a number", &value);
  *number = sx_number(&value);
  return true;
}

bool sx_option_boolean(const sx_options *options, int option, const char *what, bool *boolean) {
  const sx_datum *datum = options->values[option];
  sx_value value;
  if (!datum) return true;
  if (!sx_option_value(options, datum, &value)) return false;
  if (value.kind != SX_KIND_BOOLEAN) return fail_kind(options, datum, what, "true or false", &value);
  *boolean = value.boolean;
  return true;
}

bool sx_option_text(const sx_options *options, int option, const char *what, const char **text) {
  const sx_datum *datum = options->values[option];
  sx_value value;
  if (!datum) return true;
  if (!sx_option_value(options, datum, &value)) return false;
  if (!sx_is_text(&value)) return fail_kind(options, datum, what, "a string", &value);
  *text = value.text;
  return true;
}

static bool is_global(const sx_options *options, const sx_datum *datum) {
  return datum->kind == SX_DATUM_SYMBOL && sx_name_map_get(&options->evaluator->user_names, datum->text);
}

bool sx_option_choice(const sx_options *options, int option, const char *what, const char *const *choices,
                      int *choice) {
  const sx_datum *datum = options->values[option];
  const char *word;
  sx_text text;
  sx_text_init(&text, options->evaluator->arena);
  if (!datum) return true;
  for (int i = 0; choices[i]; i++) {
    bool bare = datum->kind == SX_DATUM_SYMBOL && strcmp(choices[i], datum->text) == 0;
    sx_text_addf(&text, i ? " or %s" : "%s", choices[i]);
    if (!bare) continue;
    *choice = i;
    return true;
  }
  if (datum->kind == SX_DATUM_SYMBOL && !is_global(options, datum))
    return sx_option_fail(options, datum, ":%s must be %s, found %s", what, sx_text_get(&text), datum->text);
  sx_value value;
  if (!sx_option_value(options, datum, &value)) return false;
  word = sx_is_text(&value) ? value.text : value.kind == SX_KIND_DTYPE ? sx_dtype_name(value.dtype) : "";
  for (int i = 0; choices[i]; i++) {
    if (strcmp(choices[i], word) != 0) continue;
    *choice = i;
    return true;
  }
  return fail_kind(options, datum, what, sx_text_get(&text), &value);
}

/* (a b c) of strings is a list of them, not a call. */
static bool is_texts(const sx_datum *datum) {
  return datum->kind == SX_DATUM_LIST && (!datum->n || datum->items[0]->kind == SX_DATUM_STRING);
}

bool sx_option_texts(const sx_options *options, int option, const char *what, const char ***texts, uint32_t *n) {
  const sx_datum *datum = options->values[option];
  if (!datum) return true;
  sx_arena *arena = options->evaluator->arena;
  bool literal = is_texts(datum);
  sx_value list = {0};
  if (!literal && !sx_option_value(options, datum, &list)) return false;
  if (!literal && list.kind != SX_KIND_LIST) return fail_kind(options, datum, what, "a list of strings", &list);
  *n = literal ? datum->n : list.n;
  *texts = SX_NEW_N(arena, const char *, *n);
  for (uint32_t i = 0; i < *n; i++) {
    sx_value item;
    if (literal && !sx_option_value(options, datum->items[i], &item)) return false;
    if (!literal) item = list.items[i];
    if (!sx_is_text(&item)) return fail_kind(options, datum, what, "a list of strings", &item);
    (*texts)[i] = item.text;
  }
  return true;
}

bool sx_option_name(const sx_options *options, int option, const char *what, sx_find_named *find, const char **name) {
  const sx_datum *datum = options->values[option];
  if (!datum) return true;
  *name = datum->text;
  bool bare = datum->kind == SX_DATUM_SYMBOL;
  if (bare && (!find || find(options->evaluator, datum->text) || !is_global(options, datum))) return true;
  return sx_option_text(options, option, what, name);
}
