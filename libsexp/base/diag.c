#include "diag.h"

#include "text.h"

static const sx_code_info codes[SX_N_CODES] = {
#define SX_ERROR(area, number, name, title, hint, page) \
  [SX_E_##name] = {"E-" #area "-" number, #name, title, hint, page},
#include "errors.def"
#undef SX_ERROR
};

const sx_code_info *sx_code_describe(sx_code code) { return &codes[code]; }

const char *sx_diag_code(const sx_diag *diag) { return diag->host_code ? diag->host_code : codes[diag->code].code; }

void sx_diags_init(sx_diags *diags, sx_arena *arena) { *diags = (sx_diags){.arena = arena}; }

static sx_diag *add(sx_diags *diags, sx_diag diag) {
  uint32_t seen = diag.warning ? diags->n_warnings++ : diags->n_errors++;
  if (seen >= SX_DIAG_LIMIT) {
    sx_diag *scratch = SX_NEW(diags->arena, sx_diag);
    *scratch = diag;
    return scratch;
  }
  SX_PUSH(diags->arena, diags->list, diag);
  return &diags->list.items[diags->list.n - 1];
}

static sx_diag *report(sx_diags *diags, bool warning, sx_code code, sx_span span, const char *format,
                       va_list arguments) {
  sx_text text;
  sx_text_init(&text, diags->arena);
  sx_text_vaddf(&text, format, arguments);
  const char *hint = codes[code].hint[0] ? codes[code].hint : NULL;
  return add(diags,
             (sx_diag){.code = code, .warning = warning, .span = span, .message = sx_text_get(&text), .hint = hint});
}

sx_diag *sx_verror(sx_diags *diags, sx_code code, sx_span span, const char *format, va_list arguments) {
  return report(diags, false, code, span, format, arguments);
}

sx_diag *sx_error(sx_diags *diags, sx_code code, sx_span span, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  sx_diag *diag = report(diags, false, code, span, format, arguments);
  va_end(arguments);
  return diag;
}

sx_diag *sx_warn(sx_diags *diags, sx_code code, sx_span span, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  sx_diag *diag = report(diags, true, code, span, format, arguments);
  va_end(arguments);
  return diag;
}
