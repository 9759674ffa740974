/* Where the evaluation stands, and errors that say so. */
#include <string.h>

#include "evaluator.h"

sx_span sx_head_span(const sx_datum *datum) {
  if (!datum) return (sx_span){0, 0, 0};
  bool call = datum->kind == SX_DATUM_LIST && datum->n && datum->items[0]->kind == SX_DATUM_SYMBOL;
  return call ? datum->items[0]->span : datum->span;
}

static const sx_activation *innermost(const sx_evaluator *evaluator) {
  return evaluator->frames.n ? &evaluator->frames.items[evaluator->frames.n - 1] : NULL;
}

const sx_datum *sx_at(const sx_evaluator *evaluator) {
  const sx_activation *frame = innermost(evaluator);
  if (!frame) return evaluator->form;
  return frame->ip ? frame->body->instructions.items[frame->ip - 1].at : frame->call;
}

const sx_datum *sx_here(const sx_evaluator *evaluator) {
  const sx_activation *frame = innermost(evaluator);
  if (frame && frame->body->prelude) return frame->user ? frame->user : evaluator->form;
  return sx_at(evaluator);
}

static bool in_prelude(const sx_evaluator *evaluator, const sx_datum *datum) {
  return datum->span.file && sx_sources_get(&evaluator->program->sources, datum->span.file)->prelude;
}

/* The calls in the user's files that led here, innermost first. */
static const sx_frame *call_chain(const sx_evaluator *evaluator) {
  const sx_datum *here = sx_here(evaluator);
  const sx_frame *first = NULL;
  const sx_frame **last = &first;
  size_t n_shown = 0;
  for (size_t i = evaluator->frames.n; i-- > 0;) {
    const sx_activation *frame = &evaluator->frames.items[i];
    if (!frame->call || in_prelude(evaluator, frame->call)) continue;
    bool is_place = frame->body->prelude && frame->call == here && !n_shown;
    if (is_place) continue;
    sx_frame *shown = SX_NEW(evaluator->arena, sx_frame);
    *shown = (sx_frame){frame->body->name, frame->call->span, NULL};
    *last = shown;
    last = &shown->outer;
    n_shown++;
  }
  return first;
}

static bool was_reported(const sx_diags *diags, const sx_diag *diag) {
  for (size_t i = 0; i + 1 < diags->list.n; i++) {
    const sx_diag *earlier = &diags->list.items[i];
    if (earlier->code == diag->code && memcmp(&earlier->span, &diag->span, sizeof diag->span) == 0 &&
        strcmp(earlier->message, diag->message) == 0)
      return true;
  }
  return false;
}

/* The same mistake met again, by another evaluation of the same function, is one error. */
static sx_diag *once(sx_evaluator *evaluator, sx_diag *diag) {
  sx_diags *diags = evaluator->diags;
  bool kept = diags->list.n && diag == &diags->list.items[diags->list.n - 1];
  if (!kept || !was_reported(diags, diag)) return diag;
  sx_diag *scratch = SX_NEW(evaluator->arena, sx_diag);
  *scratch = *diag;
  diags->list.n--;
  diags->n_errors--;
  return scratch;
}

/* Whether a message already says in which function of the prelude it arose. */
static bool begins_with_name(const char *words, const char *name) {
  size_t n = name ? strlen(name) : 0;
  return !n || strcmp(name, "lambda") == 0 || (strncmp(words, name, n) == 0 && words[n] == ':');
}

sx_diag *sx_vfail(sx_evaluator *evaluator, sx_code code, sx_span span, const char *format, va_list arguments) {
  const sx_activation *frame = innermost(evaluator);
  bool inside = frame && frame->body->prelude && sx_here(evaluator);
  sx_text message;
  sx_text_init(&message, evaluator->arena);
  sx_text_vaddf(&message, format, arguments);
  const char *words = sx_text_get(&message);
  if (inside && !begins_with_name(words, frame->entry))
    words = sx_format(evaluator->arena, "%s: %s", frame->entry, words);
  if (inside || !span.file) span = sx_head_span(sx_here(evaluator));
  sx_diag *diag = sx_error(evaluator->diags, code, span, "%s", words);
  if (!sx_too_many_errors(evaluator)) diag->frames = call_chain(evaluator);
  return once(evaluator, diag);
}

bool sx_too_many_errors(const sx_evaluator *evaluator) { return evaluator->diags->n_errors > SX_DIAG_LIMIT; }

sx_diag *sx_fail(sx_evaluator *evaluator, sx_code code, sx_span span, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  sx_diag *diag = sx_vfail(evaluator, code, span, format, arguments);
  va_end(arguments);
  return diag;
}

bool sx_out_of_budget(sx_evaluator *evaluator) {
  if (!evaluator->spent)
    sx_fail(evaluator, SX_E_EVAL_BUDGET, (sx_span){0, 0, 0}, "the work budget of %lld evaluation steps is spent",
            (long long)evaluator->selection->eval_limit);
  evaluator->spent = true;
  evaluator->steps = evaluator->instructions = 0;
  return false;
}
