#include "knobs.h"

#include <string.h>

#include "call.h"
#include "load.h"
#include "names.h"
#include "options.h"
#include "translate.h"

static const char *const knob_options[] = {"doc", "min", "max", NULL};
enum { OPTION_DOC, OPTION_MIN, OPTION_MAX };

void sx_knobs_add(sx_evaluator *evaluator, const sx_datum *form, sx_global *global) {
  sx_knob_entry *entry = SX_NEW(evaluator->arena, sx_knob_entry);
  *entry = (sx_knob_entry){.name = global->name, .form = form, .global = global, .source = "default"};
  SX_PUSH(evaluator->arena, evaluator->knobs, entry);
}

static sx_knob_entry *find_knob(const sx_evaluator *evaluator, const char *name, size_t n_bytes) {
  for (size_t i = 0; i < evaluator->knobs.n; i++) {
    sx_knob_entry *entry = evaluator->knobs.items[i];
    if (strncmp(entry->name, name, n_bytes) == 0 && !entry->name[n_bytes]) return entry;
  }
  return NULL;
}

static const char *list_knobs(const sx_evaluator *evaluator) {
  sx_text text;
  sx_text_init(&text, evaluator->arena);
  for (size_t i = 0; i < evaluator->knobs.n; i++)
    sx_text_addf(&text, i ? ", %s" : "the knobs are %s", evaluator->knobs.items[i]->name);
  return evaluator->knobs.n ? sx_text_get(&text) : "the file defines no knob";
}

static bool fail_unknown(sx_evaluator *evaluator, const char *name, sx_span span) {
  sx_nearest nearest = sx_nearest_begin(name);
  for (size_t i = 0; i < evaluator->knobs.n; i++) sx_nearest_add(&nearest, evaluator->knobs.items[i]->name);
  const char *list = list_knobs(evaluator);
  sx_diag *diag = sx_error(evaluator->diags, SX_E_KNOB_UNKNOWN, span, "unknown knob %s; %s", name, list);
  diag->hint = sx_nearest_hint(&nearest, evaluator->arena);
  return false;
}

/* ---- values ---- */

static bool is_knob_value(const sx_value *value, int depth) {
  switch ((sx_kind)value->kind) {
    case SX_KIND_INTEGER:
    case SX_KIND_REAL:
    case SX_KIND_BOOLEAN:
    case SX_KIND_STRING:
    case SX_KIND_SYMBOL:
    case SX_KIND_DTYPE:
      return true;
    case SX_KIND_LIST:
      break;
    default:
      return false;
  }
  for (uint32_t i = 0; i < value->n; i++)
    if (!depth || !is_knob_value(&value->items[i], depth - 1)) return false;
  return true;
}

/* The item whose kind the items of a list knob have: the first, or a real among the default's numbers. */
static const sx_value *model_of(const sx_value *list) {
  for (uint32_t i = 0; i < list->n; i++)
    if (list->items[i].kind == SX_KIND_REAL) return &list->items[i];
  return list->items;
}

/* The value in the kind of the default; false: it cannot be. */
static bool convert(sx_arena *arena, const sx_value *initial, const sx_value *value, sx_value *converted) {
  *converted = *value;
  sx_dtype dtype;
  if (initial->kind == SX_KIND_REAL && value->kind == SX_KIND_INTEGER) {
    *converted = sx_real((double)value->integer);
    return true;
  }
  if (initial->kind == SX_KIND_DTYPE && sx_is_text(value) && sx_dtype_parse(value->text, &dtype)) {
    *converted = (sx_value){SX_KIND_DTYPE, 0, {.dtype = dtype}};
    return true;
  }
  if (initial->kind == SX_KIND_SYMBOL && value->kind == SX_KIND_DTYPE) {
    *converted = (sx_value){SX_KIND_SYMBOL, 0, {.text = sx_dtype_name(value->dtype)}};
    return true;
  }
  if (initial->kind != value->kind) return false;
  if (value->kind != SX_KIND_LIST || !initial->n) return true;
  const sx_value *model = model_of(initial);
  sx_value *items = SX_NEW_N(arena, sx_value, value->n);
  for (uint32_t i = 0; i < value->n; i++)
    if (!convert(arena, model, &value->items[i], &items[i])) return false;
  *converted = sx_list(items, value->n);
  return true;
}

static bool fail_value(sx_evaluator *evaluator, const sx_knob_entry *entry, const sx_value *value, sx_span span,
                       const char *expected) {
  const char *list = list_knobs(evaluator);
  sx_diag *diag = sx_error(evaluator->diags, SX_E_KNOB_VALUE, span, "knob %s must be %s, found %s; %s", entry->name,
                           expected, sx_value_show(evaluator->arena, value), list);
  diag->second_span = entry->form->items[1]->span;
  diag->second_label =
      sx_format(evaluator->arena, "its default is %s", sx_value_show(evaluator->arena, &entry->initial));
  return false;
}

static bool check_bound(sx_evaluator *evaluator, const sx_knob_entry *entry, const sx_value *value, bool least,
                        sx_span span) {
  const sx_value *bound = least ? &entry->min : &entry->max;
  int order = bound->kind == SX_KIND_NONE ? 0 : sx_number_compare(value, bound);
  if (order == 0 || order == (least ? 1 : -1)) return true;
  const char *words = least ? "at least" : "at most";
  return fail_value(evaluator, entry, value, span,
                    sx_format(evaluator->arena, "%s %s", words, sx_value_show(evaluator->arena, bound)));
}

/* The value as one of the knob: of its kind and within its bounds. */
static bool accept(sx_evaluator *evaluator, sx_knob_entry *entry, const sx_value *value, sx_span span,
                   sx_value *accepted) {
  if (!convert(evaluator->arena, &entry->initial, value, accepted))
    return fail_value(evaluator, entry, value, span, sx_kind_phrase((sx_kind)entry->initial.kind));
  return check_bound(evaluator, entry, accepted, true, span) && check_bound(evaluator, entry, accepted, false, span);
}

/* ---- --set and --variant ---- */

/* The datum of --set name=value. For a knob whose default is a string, the text as it is, quoted or not. */
static bool read_set(sx_evaluator *evaluator, const sx_knob_entry *entry, const char *set, sx_value *value,
                     sx_span *span) {
  const char *text = strchr(set, '=') + 1;
  size_t n_bytes = strlen(text);
  sx_sources *sources = &evaluator->program->sources;
  const char *path = sx_format(evaluator->arena, "--set %s", entry->name);
  uint32_t file = sx_sources_add(sources, path, text, n_bytes, true); /* no file of the experiment */
  *span = (sx_span){file, 0, (uint32_t)n_bytes};
  *value = sx_string(sx_sources_get(sources, file)->bytes);
  if (entry->initial.kind == SX_KIND_STRING && text[0] != '"') return true;
  uint32_t errors = evaluator->diags->n_errors;
  sx_datums datums = sx_read(sources, file, evaluator->names, evaluator->arena, evaluator->diags);
  if (evaluator->diags->n_errors != errors) return false;
  if (datums.n != 1) {
    sx_error(evaluator->diags, SX_E_KNOB_SET, *span, "--set %s needs one value after the =", entry->name);
    return false;
  }
  *value = sx_quoted(evaluator, datums.items[0]);
  return true;
}

static bool select_sets(sx_evaluator *evaluator) {
  const sx_selection *selection = evaluator->selection;
  bool good = true;
  for (size_t i = 0; i < selection->n_sets; i++) {
    const char *set = selection->sets[i], *equals = strchr(set, '=');
    size_t n = equals ? (size_t)(equals - set) : 0;
    if (!n) {
      sx_error(evaluator->diags, SX_E_KNOB_SET, (sx_span){0, 0, 0}, "--set %s: the form is --set knob=value", set);
      good = false;
    } else if (!find_knob(evaluator, set, n)) {
      good = fail_unknown(evaluator, sx_arena_copy_text(evaluator->arena, set, n), (sx_span){0, 0, 0});
    }
  }
  return good;
}

/* Every name in a variant is a knob. */
static bool check_names(sx_evaluator *evaluator, const sx_datum *form) {
  bool good = true;
  for (uint32_t i = 2; i < form->n; i += 2) {
    const sx_datum *keyword = form->items[i];
    if (keyword->kind != SX_DATUM_KEYWORD || i + 1 == form->n) {
      sx_error(evaluator->diags, SX_E_KNOB_VARIANT, keyword->span, "a variant is pairs of :knob and value");
      return false;
    }
    if (!find_knob(evaluator, keyword->text, strlen(keyword->text)))
      good = fail_unknown(evaluator, keyword->text, keyword->span);
  }
  return good;
}

bool sx_knobs_select(sx_evaluator *evaluator) {
  const char *variant = evaluator->selection->variant;
  bool good = select_sets(evaluator);
  for (size_t i = 0; i < evaluator->declarations[SX_DECLARE_VARIANT].n; i++)
    if (!check_names(evaluator, evaluator->declarations[SX_DECLARE_VARIANT].items[i].form)) good = false;
  if (!variant || sx_find_declaration(evaluator, SX_DECLARE_VARIANT, variant)) return good;
  const char *list = sx_list_declarations(evaluator, SX_DECLARE_VARIANT);
  sx_nearest nearest = sx_nearest_begin(variant);
  for (size_t i = 0; i < evaluator->declarations[SX_DECLARE_VARIANT].n; i++)
    sx_nearest_add(&nearest, evaluator->declarations[SX_DECLARE_VARIANT].items[i].name);
  sx_error(evaluator->diags, SX_E_KNOB_VARIANT, (sx_span){0, 0, 0}, "unknown variant %s; %s%s", variant,
           *list ? "the variants are " : "the file defines no variant", list)
      ->hint = sx_nearest_hint(&nearest, evaluator->arena);
  return false;
}

/* ---- the value in effect ---- */

static const sx_datum *variant_value(sx_evaluator *evaluator, const sx_datum *form, const char *knob) {
  (void)evaluator;
  const sx_datum *found = NULL;
  for (uint32_t i = 2; i + 1 < form->n; i += 2)
    if (form->items[i]->kind == SX_DATUM_KEYWORD && strcmp(form->items[i]->text, knob) == 0) found = form->items[i + 1];
  return found;
}

static bool choose(sx_evaluator *evaluator, sx_knob_entry *entry) {
  const sx_selection *selection = evaluator->selection;
  size_t n = strlen(entry->name);
  const sx_declaration *variant =
      selection->variant ? sx_find_declaration(evaluator, SX_DECLARE_VARIANT, selection->variant) : NULL;
  const sx_datum *given = variant ? variant_value(evaluator, variant->form, entry->name) : NULL;
  sx_value value;
  if (given) {
    if (!sx_evaluate_datum(evaluator, given, &value) || !accept(evaluator, entry, &value, given->span, &entry->value))
      return false;
    entry->source = "variant";
  }
  for (size_t i = 0; i < selection->n_sets; i++) {
    const char *set = selection->sets[i];
    if (strncmp(set, entry->name, n) != 0 || set[n] != '=') continue;
    sx_span span;
    if (!read_set(evaluator, entry, set, &value, &span) || !accept(evaluator, entry, &value, span, &entry->value))
      return false;
    entry->source = "set";
  }
  return true;
}

static bool read_bound(const sx_options *options, const sx_knob_entry *entry, int option, sx_value *bound) {
  const sx_datum *datum = options->values[option];
  if (!datum) return true;
  if (!sx_option_value(options, datum, bound)) return false;
  if (sx_is_number(bound) && sx_is_number(&entry->initial)) return true;
  return sx_option_fail(options, datum, ":%s bounds a knob whose default is a number, by a number",
                        knob_options[option]);
}

bool sx_knobs_define(sx_evaluator *evaluator, const sx_datum *form, sx_value *value) {
  sx_knob_entry *entry = find_knob(evaluator, form->items[1]->text, strlen(form->items[1]->text));
  sx_options options;
  sx_value initial;
  if (!sx_read_options(&options, evaluator, form, 3, SX_E_KNOB_FORM, knob_options)) return false;
  if (!sx_evaluate_datum(evaluator, form->items[2], &initial)) return false;
  if (!is_knob_value(&initial, 8))
    return sx_option_fail(&options, form->items[2],
                          "the default of a knob is a number, a boolean, a text, a dtype or a list of these, found %s",
                          sx_value_show(evaluator->arena, &initial));
  entry->initial = initial;
  if (!sx_option_text(&options, OPTION_DOC, "doc", &entry->doc) ||
      !read_bound(&options, entry, OPTION_MIN, &entry->min) || !read_bound(&options, entry, OPTION_MAX, &entry->max))
    return false;
  if (!accept(evaluator, entry, &initial, form->items[2]->span, &entry->value) || !choose(evaluator, entry))
    return false;
  *value = entry->value;
  return true;
}

void sx_knobs_check_variants(sx_evaluator *evaluator) {
  const sx_declarations *variants = &evaluator->declarations[SX_DECLARE_VARIANT];
  for (size_t v = 0; v < variants->n; v++) {
    const sx_datum *form = variants->items[v].form;
    const char *selected = evaluator->selection->variant;
    if (selected && strcmp(selected, variants->items[v].name) == 0) continue;
    evaluator->form = form;
    for (uint32_t i = 2; i + 1 < form->n; i += 2) {
      sx_value value, accepted;
      sx_knob_entry *entry = find_knob(evaluator, form->items[i]->text, strlen(form->items[i]->text));
      if (entry && entry->initial.kind != SX_KIND_NONE && sx_evaluate_datum(evaluator, form->items[i + 1], &value))
        accept(evaluator, entry, &value, form->items[i + 1]->span, &accepted);
    }
  }
}

/* ---- the record ---- */

/* The datum that reads as the value. */
static const sx_datum *datum_of(sx_evaluator *evaluator, const sx_value *value, sx_span span) {
  sx_datum *datum = SX_NEW(evaluator->arena, sx_datum);
  datum->span = span;
  switch ((sx_kind)value->kind) {
    case SX_KIND_INTEGER:
      datum->kind = SX_DATUM_INTEGER;
      datum->integer = value->integer;
      break;
    case SX_KIND_REAL:
      datum->kind = SX_DATUM_REAL;
      datum->real = value->real;
      break;
    case SX_KIND_BOOLEAN:
      datum->kind = SX_DATUM_BOOLEAN;
      datum->boolean = value->boolean;
      break;
    case SX_KIND_STRING:
      datum->kind = SX_DATUM_STRING;
      datum->text = value->text;
      datum->n = (uint32_t)strlen(value->text);
      break;
    case SX_KIND_LIST: {
      const sx_datum **items = SX_NEW_N(evaluator->arena, const sx_datum *, value->n);
      for (uint32_t i = 0; i < value->n; i++) items[i] = datum_of(evaluator, &value->items[i], span);
      datum->kind = SX_DATUM_LIST;
      datum->items = items;
      datum->n = value->n;
      break;
    }
    default:
      datum->kind = SX_DATUM_SYMBOL;
      datum->text =
          sx_intern_text(evaluator->names, value->kind == SX_KIND_DTYPE ? sx_dtype_name(value->dtype) : value->text);
      break;
  }
  return datum;
}

static void record(sx_evaluator *evaluator, const char *name, const char *doc, const sx_value *value,
                   const char *source, sx_span span) {
  sx_knob knob = {.name = name, .doc = doc, .value = datum_of(evaluator, value, span), .source = source, .span = span};
  SX_PUSH(evaluator->arena, evaluator->program->knobs, knob);
}

void sx_knobs_record(sx_evaluator *evaluator) {
  const sx_selection *selection = evaluator->selection;
  sx_span none = {0, 0, 0};
  for (size_t i = 0; i < evaluator->knobs.n; i++) {
    const sx_knob_entry *entry = evaluator->knobs.items[i];
    record(evaluator, entry->name, entry->doc, &entry->value, entry->source, entry->form->items[1]->span);
  }
  sx_value value = sx_integer(selection->steps);
  if (selection->steps) record(evaluator, "steps", NULL, &value, "override", none);
  value = sx_integer(selection->eval_every);
  if (selection->eval_every) record(evaluator, "eval-every", NULL, &value, "override", none);
  if (!selection->diagnostics) return;
  sx_value *items = SX_NEW_N(evaluator->arena, sx_value, selection->n_diagnostics);
  for (size_t i = 0; i < selection->n_diagnostics; i++)
    items[i] =
        sx_string(sx_arena_copy_text(evaluator->arena, selection->diagnostics[i], strlen(selection->diagnostics[i])));
  value = sx_list(items, (uint32_t)selection->n_diagnostics);
  record(evaluator, "diagnostics", NULL, &value, "override", none);
}
