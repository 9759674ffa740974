#include "load.h"

#include <string.h>

#include "call.h"
#include "knobs.h"
#include "names.h"
#include "paths.h"
#include "prelude.h"
#include "translate.h"

/* The chain of files that are being read. */
typedef struct reading {
  const char *path;
  const struct reading *outer;
  int depth;
} reading;
enum { INCLUDE_DEPTH = 32 };

static const char *head_of(const sx_datum *form) {
  bool named = form->kind == SX_DATUM_LIST && form->n && form->items[0]->kind == SX_DATUM_SYMBOL;
  return named ? form->items[0]->text : "";
}

/* ---- definitions ---- */

static void fail_form(sx_evaluator *evaluator, const sx_datum *form) {
  sx_fail(evaluator, SX_E_EVAL_FORM, form->span, "malformed %s; the form is %s", head_of(form),
          sx_find_special(head_of(form))->usage);
}

static void fail_twice(sx_evaluator *evaluator, const sx_datum *name, const sx_datum *earlier) {
  sx_diag *diag = sx_fail(evaluator, SX_E_EVAL_REDEFINED, name->span, "%s is defined a second time", name->text);
  diag->second_span = earlier->items[1]->span;
  diag->second_label = "first defined here";
}

/* Enters the name of a def, defun or defknob. */
static void add_definition(sx_evaluator *evaluator, const sx_datum *form, bool prelude) {
  bool function = strcmp(head_of(form), "defun") == 0, knob = strcmp(head_of(form), "defknob") == 0;
  bool sized = function ? form->n >= 4 : knob ? form->n >= 3 : form->n == 3;
  if (!sized || form->items[1]->kind != SX_DATUM_SYMBOL) {
    fail_form(evaluator, form);
    return;
  }
  const sx_datum *name = form->items[1];
  if (!prelude && sx_find_special(name->text)) {
    sx_fail(evaluator, SX_E_EVAL_REDEFINED, name->span, "%s is a special form and cannot be defined", name->text);
    return;
  }
  const sx_name_map *map = prelude ? &evaluator->library_names : &evaluator->user_names;
  const sx_global *earlier = sx_name_map_get(map, name->text);
  if (earlier && earlier->definition) {
    fail_twice(evaluator, name, earlier->definition);
    return;
  }
  sx_global *global = sx_names_add(evaluator, name->text, form, prelude);
  if (prelude && function) {
    global->lazy = form;
    return;
  }
  if (knob) sx_knobs_add(evaluator, form, global);
  SX_PUSH(evaluator->arena, evaluator->forms, form);
}

/* ---- declarations ---- */

static const struct {
  const char *form;
  sx_declaration_kind kind, shared; /* shared: of a kind with the same names */
} declaring[] = {
    {"defdata", SX_DECLARE_DATA, SX_DECLARE_GENERATOR},
    {"defgenerator", SX_DECLARE_GENERATOR, SX_DECLARE_DATA},
    {"defrun", SX_DECLARE_RUN, SX_DECLARE_RUN},
    {"defeval", SX_DECLARE_EVAL, SX_DECLARE_EVAL},
    {"defvariant", SX_DECLARE_VARIANT, SX_DECLARE_VARIANT},
};

sx_declaration *sx_find_declaration(sx_evaluator *evaluator, sx_declaration_kind kind, const char *name) {
  for (size_t i = 0; i < evaluator->declarations[kind].n; i++)
    if (strcmp(evaluator->declarations[kind].items[i].name, name) == 0) return &evaluator->declarations[kind].items[i];
  return NULL;
}

const char *sx_list_declarations(sx_evaluator *evaluator, sx_declaration_kind kind) {
  sx_text text;
  sx_text_init(&text, evaluator->arena);
  for (size_t i = 0; i < evaluator->declarations[kind].n; i++)
    sx_text_addf(&text, i ? ", %s" : "%s", evaluator->declarations[kind].items[i].name);
  return sx_text_get(&text);
}

static bool add_declaration(sx_evaluator *evaluator, const sx_datum *form) {
  for (size_t i = 0; i < sizeof declaring / sizeof *declaring; i++) {
    if (strcmp(head_of(form), declaring[i].form) != 0) continue;
    if (form->n < 2 || form->items[1]->kind != SX_DATUM_SYMBOL) {
      fail_form(evaluator, form);
      return true;
    }
    const sx_datum *name = form->items[1];
    const sx_declaration *earlier = sx_find_declaration(evaluator, declaring[i].kind, name->text);
    if (!earlier) earlier = sx_find_declaration(evaluator, declaring[i].shared, name->text);
    if (earlier) {
      fail_twice(evaluator, name, earlier->form);
      return true;
    }
    sx_declaration declaration = {name->text, form, NULL};
    SX_PUSH(evaluator->arena, evaluator->declarations[declaring[i].kind], declaration);
    return true;
  }
  return false;
}

/* ---- files ---- */

static void load_text(sx_evaluator *evaluator, const char *path, const sx_datum *include, const reading *outer);

static void add_include(sx_evaluator *evaluator, const sx_datum *form, const reading *at) {
  if (form->n != 2 || form->items[1]->kind != SX_DATUM_STRING) {
    fail_form(evaluator, form);
    return;
  }
  load_text(evaluator, sx_join_path(evaluator->arena, at->path, form->items[1]->text), form->items[1], at);
}

static void add_form(sx_evaluator *evaluator, const sx_datum *form, const reading *at) {
  const char *head = head_of(form);
  if (strcmp(head, "include") == 0) {
    add_include(evaluator, form, at);
  } else if (strcmp(head, "begin") == 0) {
    for (uint32_t i = 1; i < form->n; i++) add_form(evaluator, form->items[i], at);
  } else if (strcmp(head, "def") == 0 || strcmp(head, "defun") == 0 || strcmp(head, "defknob") == 0) {
    add_definition(evaluator, form, false);
  } else if (!add_declaration(evaluator, form)) {
    SX_PUSH(evaluator->arena, evaluator->forms, form);
  }
}

/* Whether a file is being read, or was: each is read once. */
static bool is_known(sx_evaluator *evaluator, const char *path, const sx_datum *include, const reading *outer) {
  for (const reading *r = outer; r; r = r->outer) {
    if (strcmp(r->path, path) != 0) continue;
    sx_fail(evaluator, SX_E_READ_INCLUDE_CYCLE, include->span, "%s includes itself", path);
    return true;
  }
  for (size_t i = 0; i < evaluator->program->sources.files.n; i++) {
    const sx_source *source = &evaluator->program->sources.files.items[i];
    if (!source->prelude && strcmp(source->path, path) == 0) return true;
  }
  return false;
}

static void load_text(sx_evaluator *evaluator, const char *path, const sx_datum *include, const reading *outer) {
  sx_program *program = evaluator->program;
  sx_span span = include ? include->span : (sx_span){0, 0, 0};
  reading here = {path, outer, outer ? outer->depth + 1 : 0};
  const char *bytes = "", *why = NULL;
  size_t n_bytes = 0;
  if (is_known(evaluator, path, include, outer)) return;
  if (here.depth > INCLUDE_DEPTH) {
    sx_fail(evaluator, SX_E_READ_INCLUDE_CYCLE, span, "files include each other more than %d deep", (int)INCLUDE_DEPTH);
    return;
  }
  if (!evaluator->host->read_source(evaluator->host->context, path, &bytes, &n_bytes, &why, evaluator->arena)) {
    const char *words = why ? why : "it cannot be read";
    if (!strstr(words, path)) words = sx_format(evaluator->arena, "%s: %s", path, words);
    sx_error(evaluator->diags, SX_E_READ_FILE, span, "%s", words);
    return;
  }
  if (n_bytes > SX_SOURCE_BYTES) {
    sx_error(evaluator->diags, SX_E_READ_FILE, span, "%s: it is larger than 64 MiB", path);
    return;
  }
  uint32_t file = sx_sources_add(&program->sources, path, bytes, n_bytes, false);
  uint32_t errors = evaluator->diags->n_errors;
  sx_datums datums = sx_read(&program->sources, file, evaluator->names, evaluator->arena, evaluator->diags);
  if (evaluator->diags->n_errors != errors) return; /* mistakes of form would only follow from those */
  for (uint32_t i = 0; i < datums.n; i++) add_form(evaluator, datums.items[i], &here);
}

bool sx_load_file(sx_evaluator *evaluator, const char *path) {
  uint32_t errors = evaluator->diags->n_errors;
  load_text(evaluator, sx_arena_copy_text(evaluator->arena, path, strlen(path)), NULL, NULL);
  return evaluator->diags->n_errors == errors;
}

bool sx_load_prelude(sx_evaluator *evaluator) {
  sx_program *program = evaluator->program;
  for (size_t i = 0; i < sx_prelude_count; i++) {
    const sx_embedded *text = &sx_prelude[i];
    uint32_t file = sx_sources_add(&program->sources, text->name, text->bytes, text->n_bytes, true);
    sx_datums datums = sx_read(&program->sources, file, evaluator->names, evaluator->arena, evaluator->diags);
    for (uint32_t k = 0; k < datums.n; k++) add_definition(evaluator, datums.items[k], true);
  }
  size_t n = evaluator->forms.n;
  for (size_t i = 0; i < n; i++) sx_evaluate_form(evaluator, evaluator->forms.items[i]);
  evaluator->forms.n = 0;
  return evaluator->diags->n_errors == 0;
}

/* ---- evaluating ---- */

static bool define(sx_evaluator *evaluator, const sx_datum *form, sx_value *value) {
  if (strcmp(head_of(form), "def") == 0) return sx_evaluate_datum(evaluator, form->items[2], value);
  if (strcmp(head_of(form), "defknob") == 0) return sx_knobs_define(evaluator, form, value);
  sx_function *function = SX_NEW(evaluator->arena, sx_function);
  function->body = sx_translate_defun(evaluator, form);
  *value = (sx_value){SX_KIND_FUNCTION, 0, {.function = function}};
  return !function->body->poisoned;
}

void sx_evaluate_form(sx_evaluator *evaluator, const sx_datum *form) {
  const char *head = head_of(form);
  sx_value value = {0};
  evaluator->form = form;
  evaluator->context = (sx_context){.place = SX_PLACE_FILE, .path = ""};
  if (strcmp(head, "def") != 0 && strcmp(head, "defun") != 0 && strcmp(head, "defknob") != 0) {
    sx_evaluate_datum(evaluator, form, &value);
    return;
  }
  bool prelude = sx_sources_get(&evaluator->program->sources, form->span.file)->prelude;
  sx_global *global = sx_names_find(evaluator, form->items[1]->text, prelude);
  if (define(evaluator, form, &value))
    global->value = value;
  else
    global->poisoned = true;
}
