/* (defdata name :source (...) :order o :seed n :records (lo hi) :on-end e) */
#include <math.h>
#include <string.h>

#include "../base/bug.h"
#include "call.h"
#include "declare.h"
#include "load.h"
#include "names.h"
#include "paths.h"

static const char *const data_options[] = {"source", "order", "seed", "records", "on-end", NULL};
enum { OPTION_SOURCE, OPTION_ORDER, OPTION_SEED, OPTION_RECORDS, OPTION_ON_END };

/* ---- sources ---- */

/* The file of a source, meant from the file that holds the form. */
static bool read_path(const sx_options *options, const sx_datum *datum, const char **path) {
  sx_evaluator *evaluator = options->evaluator;
  sx_value value;
  if (!sx_option_value(options, datum, &value)) return false;
  if (!sx_is_text(&value) || !value.text[0])
    return sx_option_fail(options, datum, "expected the path of a file, found %s, %s",
                          sx_kind_phrase((sx_kind)value.kind), sx_value_show(evaluator->arena, &value));
  *path =
      sx_join_path(evaluator->arena, sx_sources_get(&evaluator->program->sources, datum->span.file)->path, value.text);
  return true;
}

static bool needs_path(const sx_options *options, const sx_datum *source) {
  return source->n >= 2 || sx_option_fail(options, source, "a source (%s ...) names its file", source->items[0]->text);
}

static bool read_single(const sx_options *options, const sx_datum *source, sx_data *data) {
  if (!needs_path(options, source) || !read_path(options, source->items[1], &data->path)) return false;
  return source->n == 2 ||
         sx_option_fail(options, source->items[2], "(%s FILE) takes nothing else", source->items[0]->text);
}

static bool read_windows(const sx_options *outer, const sx_datum *source, sx_data *data) {
  static const char *const names[] = {"dtype", "length", "stride", "field", NULL};
  static const char *const dtypes[] = {"u8", "u16", "i32", NULL};
  static const int bytes[] = {1, 2, 4};
  sx_options options;
  int dtype = 0;
  data->window_field = "tokens";
  if (!needs_path(outer, source) || !read_path(outer, source->items[1], &data->path)) return false;
  if (!sx_read_options(&options, outer->evaluator, source, 2, outer->code, names)) return false;
  if (!options.values[1]) return sx_option_fail(&options, source, "windows need a :length");
  if (!sx_option_choice(&options, 0, "dtype", dtypes, &dtype) ||
      !sx_option_integer(&options, 1, "length", 1, &data->window_length))
    return false;
  data->window_stride = data->window_length;
  data->window_bytes = bytes[dtype];
  data->window_dtype = dtype == 0 ? SX_U8 : SX_I32;
  return sx_option_integer(&options, 2, "stride", 1, &data->window_stride) &&
         sx_option_name(&options, 3, "field", NULL, &data->window_field);
}

static bool is_symbol(const sx_datum *datum) { return datum->kind == SX_DATUM_SYMBOL; }

/* (image "train-images") */
static bool read_idx(const sx_options *options, const sx_datum *source, sx_data *data) {
  data->n_fields = source->n - 1;
  data->fields = SX_NEW_N(options->evaluator->arena, sx_source_field, data->n_fields);
  if (!data->n_fields) return sx_option_fail(options, source, "the form is (idx (field FILE) ...)");
  for (uint32_t i = 0; i < data->n_fields; i++) {
    const sx_datum *field = source->items[i + 1];
    if (field->kind != SX_DATUM_LIST || field->n != 2 || !is_symbol(field->items[0]))
      return sx_option_fail(options, field, "a field of idx is (name FILE)");
    data->fields[i].name = field->items[0]->text;
    if (!read_path(options, field->items[1], &data->fields[i].path)) return false;
  }
  return true;
}

/* name, or (name column [n] dtype) in any order after the name: without a column the next one, without [n] a scalar,
 * f32 without a dtype. */
static bool read_csv_field(const sx_options *options, const sx_datum *datum, int64_t next, sx_source_field *field) {
  bool bare = is_symbol(datum);
  if (!bare && (datum->kind != SX_DATUM_LIST || !datum->n || !is_symbol(datum->items[0])))
    return sx_option_fail(options, datum, "a field of csv is name or (name column [n] dtype)");
  *field = (sx_source_field){.name = bare ? datum->text : datum->items[0]->text, .dtype = SX_F32, .first_column = next};
  for (uint32_t i = 1; !bare && i < datum->n; i++) {
    sx_value value;
    const sx_datum *item = datum->items[i];
    if (!sx_option_value(options, item, &value)) return false;
    bool sizes = value.kind == SX_KIND_LIST && value.n <= 1;
    if (value.kind == SX_KIND_INTEGER && value.integer >= 0)
      field->first_column = value.integer;
    else if (value.kind == SX_KIND_DTYPE && (value.dtype == SX_F32 || value.dtype == SX_I32))
      field->dtype = value.dtype;
    else if (sizes && (!value.n || (value.items[0].kind == SX_KIND_INTEGER && value.items[0].integer > 0)))
      field->n_columns = value.n ? value.items[0].integer : 0;
    else
      return sx_option_fail(options, item, "expected a column, [n], f32 or i32, found %s",
                            sx_value_show(options->evaluator->arena, &value));
  }
  return true;
}

static bool read_csv(const sx_options *outer, const sx_datum *source, sx_data *data) {
  static const char *const names[] = {"fields", "header", NULL};
  sx_options options;
  if (!needs_path(outer, source) || !read_path(outer, source->items[1], &data->path)) return false;
  if (!sx_read_options(&options, outer->evaluator, source, 2, outer->code, names)) return false;
  const sx_datum *fields = options.values[0];
  if (!fields || (fields->kind != SX_DATUM_LIST && fields->kind != SX_DATUM_VECTOR) || !fields->n)
    return sx_option_fail(&options, fields ? fields : source, "csv needs :fields, as ((x [4] f32) (label i32))");
  data->n_fields = fields->n;
  data->fields = SX_NEW_N(outer->evaluator->arena, sx_source_field, fields->n);
  int64_t next = 0;
  for (uint32_t i = 0; i < fields->n; i++) {
    sx_source_field *field = &data->fields[i];
    if (!read_csv_field(&options, fields->items[i], next, field)) return false;
    if (__builtin_add_overflow(field->first_column, field->n_columns ? field->n_columns : 1, &next))
      return sx_option_fail(&options, fields->items[i], "the columns of a field do not fit 64 bits");
  }
  return sx_option_boolean(&options, 1, "header", &data->csv_header);
}

static const struct {
  const char *name;
  sx_source_kind kind;
  bool (*read)(const sx_options *options, const sx_datum *source, sx_data *data);
} sources[] = {
    {"arrays", SX_SOURCE_ARRAYS, read_single},
    {"windows", SX_SOURCE_WINDOWS, read_windows},
    {"csv", SX_SOURCE_CSV, read_csv},
    {"idx", SX_SOURCE_IDX, read_idx},
    {"manifest", SX_SOURCE_MANIFEST, read_single},
};

static bool read_source(const sx_options *options, sx_data *data) {
  const sx_datum *source = options->values[OPTION_SOURCE];
  if (!source) return sx_option_fail(options, options->form, "data need a :source");
  if (source->kind == SX_DATUM_LIST && source->n && is_symbol(source->items[0]))
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
      if (strcmp(sources[i].name, source->items[0]->text) == 0) {
        data->kind = sources[i].kind;
        return sources[i].read(options, source, data);
      }
  return sx_option_fail(options, source,
                        "a source is (arrays FILE), (windows FILE ...), (csv FILE ...), "
                        "(idx (field FILE) ...) or (manifest FILE)");
}

static bool fields_differ(const sx_options *options, const sx_data *data) {
  for (uint32_t i = 0; i < data->n_fields; i++)
    for (uint32_t k = 0; k < i; k++)
      if (strcmp(data->fields[i].name, data->fields[k].name) == 0)
        return sx_option_fail(options, options->values[OPTION_SOURCE], "the field %s stands twice",
                              data->fields[i].name);
  return true;
}

/* ---- :records ---- */

/* (lo hi): two integers are records, with a real they are parts of the whole. */
static bool read_records(const sx_options *options, sx_data *data) {
  const sx_datum *datum = options->values[OPTION_RECORDS];
  data->record_lo = data->record_hi = -1;
  if (!datum) return true;
  sx_value list = {0}, ends[2];
  bool pair = datum->kind == SX_DATUM_LIST && datum->n == 2 && !is_symbol(datum->items[0]);
  if (pair) {
    if (!sx_option_value(options, datum->items[0], &ends[0]) || !sx_option_value(options, datum->items[1], &ends[1]))
      return false;
  } else {
    if (!sx_option_value(options, datum, &list)) return false;
    if (list.kind != SX_KIND_LIST || list.n != 2) return sx_option_fail(options, datum, ":records is (lo hi)");
    memcpy(ends, list.items, sizeof ends);
  }
  if (!sx_is_number(&ends[0]) || !sx_is_number(&ends[1]))
    return sx_option_fail(options, datum, ":records is (lo hi), two numbers");
  data->records_are_fractions = ends[0].kind == SX_KIND_REAL || ends[1].kind == SX_KIND_REAL;
  if (data->records_are_fractions) {
    data->fraction_lo = sx_number(&ends[0]);
    data->fraction_hi = sx_number(&ends[1]);
    if (data->fraction_lo >= 0 && data->fraction_hi <= 1 && data->fraction_lo < data->fraction_hi) return true;
    return sx_option_fail(options, datum, "parts in :records lie from 0.0 to 1.0, the first below the second");
  }
  data->record_lo = ends[0].integer;
  data->record_hi = ends[1].integer;
  if (data->record_lo >= 0 && data->record_lo < data->record_hi) return true;
  return sx_option_fail(options, datum, "records in :records are not negative, the first below the second");
}

/* ---- the form ---- */

static bool read_data(sx_evaluator *evaluator, const sx_declaration *declaration, sx_data *data) {
  static const char *const orders[] = {"sequential", "shuffled", NULL}, *const ends[] = {"repeat", "stop", NULL};
  sx_options options;
  int order = 0, end = 0;
  *data = (sx_data){.name = declaration->name, .span = declaration->form->items[1]->span};
  evaluator->form = declaration->form;
  if (!sx_read_options(&options, evaluator, declaration->form, 2, SX_E_DATA_FORM, data_options)) return false;
  if (!read_source(&options, data) || !fields_differ(&options, data) || !read_records(&options, data)) return false;
  if (!sx_option_choice(&options, OPTION_ORDER, "order", orders, &order) ||
      !sx_option_integer(&options, OPTION_SEED, "seed", INT64_MIN, &data->seed) ||
      !sx_option_choice(&options, OPTION_ON_END, "on-end", ends, &end))
    return false;
  data->shuffled = order == 1;
  data->has_seed = options.values[OPTION_SEED] != NULL;
  data->stop_at_end = end == 1;
  return true;
}

void sx_build_datas(sx_evaluator *evaluator) {
  sx_declarations *declarations = &evaluator->declarations[SX_DECLARE_DATA];
  for (size_t i = 0; i < declarations->n; i++) {
    sx_data_entry *entry = SX_NEW(evaluator->arena, sx_data_entry);
    entry->index = -1;
    if (read_data(evaluator, &declarations->items[i], &entry->data)) declarations->items[i].built = entry;
  }
}

/* ---- use ---- */

static bool fail_unknown(const sx_options *options, const sx_datum *at, const char *name) {
  sx_evaluator *evaluator = options->evaluator;
  sx_nearest nearest = sx_nearest_begin(name);
  for (int kind = SX_DECLARE_DATA; kind <= SX_DECLARE_GENERATOR; kind++)
    for (size_t i = 0; i < evaluator->declarations[kind].n; i++)
      sx_nearest_add(&nearest, evaluator->declarations[kind].items[i].name);
  const char *list = sx_list_declarations(evaluator, SX_DECLARE_DATA);
  sx_diag *diag = sx_fail(evaluator, SX_E_DATA_UNKNOWN, at->span, "there are no data %s%s%s", name,
                          *list ? "; the file defines " : "", list);
  diag->hint = sx_nearest_hint(&nearest, evaluator->arena);
  return false;
}

static bool describe(sx_evaluator *evaluator, sx_data_entry *entry, sx_reading *reading) {
  sx_program *program = evaluator->program;
  const sx_language_host *host = evaluator->host;
  sx_field_type *fields = NULL;
  uint32_t errors = evaluator->diags->n_errors;
  if (!host->describe_data(host->context, &entry->data, evaluator->arena, &fields, &reading->n_fields,
                           &reading->n_records, evaluator->diags)) {
    SX_ASSERT(evaluator->diags->n_errors > errors);
    return false;
  }
  reading->fields = fields;
  if (entry->index < 0) {
    entry->index = (int)program->datas.n;
    SX_PUSH(evaluator->arena, program->datas, entry->data);
  }
  reading->data = entry->index;
  return true;
}

static sx_declaration *find_data(sx_evaluator *evaluator, const char *name) {
  sx_declaration *found = sx_find_declaration(evaluator, SX_DECLARE_DATA, name);
  return found ? found : sx_find_declaration(evaluator, SX_DECLARE_GENERATOR, name);
}

bool sx_use_data(const sx_options *options, int option, const char *what, sx_reading *reading) {
  sx_evaluator *evaluator = options->evaluator;
  const char *name = NULL;
  *reading = (sx_reading){.data = -1};
  if (!sx_option_name(options, option, what, find_data, &name)) return false;
  if (!name) return true;
  sx_declaration *data = sx_find_declaration(evaluator, SX_DECLARE_DATA, name);
  if (data) return data->built && describe(evaluator, data->built, reading); /* not built: its errors are reported */
  reading->generator = sx_find_declaration(evaluator, SX_DECLARE_GENERATOR, name);
  if (!reading->generator) return fail_unknown(options, options->values[option], name);
  if (!sx_generator_fields(evaluator, reading->generator)) return false;
  const sx_generator *generator = reading->generator->built;
  reading->fields = generator->fields;
  reading->n_fields = generator->n_fields;
  return true;
}
