/* Sources of comma-separated text (RFC 4180; lines may also end in LF alone, a byte-order mark and empty
 * lines are skipped). A field is one column, or several one after the other. The cells that fields name
 * are parsed once, to the nearest f32 or as i32. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "dataset.h"

enum { LONGEST_NUMBER = 1024, FEW_DIGITS = 15 };

typedef struct csv {
  const char *path;
  const unsigned char *bytes, *end, *at;
  int64_t line; /* of `at`, from 1 */
  sx_span span;
  sx_diags *diags;
} csv;

/* A cell's text; a quoted one without its outer quotes, inner ones still doubled. */
typedef struct csv_cell {
  const unsigned char *text;
  size_t n;
  int64_t line, column; /* column: number of the cell, from 1 */
  bool quoted, last;    /* last: of its row */
} csv_cell;

static bool end_of_line(csv *file, csv_cell *out) {
  if (file->at == file->end) return out->last = true;
  if (*file->at == ',') {
    file->at++;
    return true;
  }
  if (*file->at == '\r' && file->at + 1 < file->end && file->at[1] == '\n') file->at++;
  if (*file->at != '\n') return false;
  file->at++;
  file->line++;
  return out->last = true;
}

static bool quote_error(csv *file, const csv_cell *cell, const char *what) {
  sx_error(file->diags, SX_E_CSV_QUOTE, file->span, "%s: line %" PRId64 ", column %" PRId64 ": %s", file->path,
           cell->line, cell->column, what);
  return false;
}

static bool quoted_cell(csv *file, csv_cell *out) {
  out->quoted = true;
  out->text = ++file->at;
  for (;; file->at++) {
    if (file->at == file->end) return quote_error(file, out, "the file ends within quotes");
    if (*file->at == '\n') file->line++;
    if (*file->at != '"') continue;
    if (file->at + 1 == file->end || file->at[1] != '"') break;
    file->at++;
  }
  out->n = (size_t)(file->at++ - out->text);
  return end_of_line(file, out) || quote_error(file, out, "text follows the closing quote");
}

/* The next cell; column is that of the one before, or 0 at the start of a row. */
static bool next_cell(csv *file, int64_t column, csv_cell *out) {
  *out = (csv_cell){.line = file->line, .column = column + 1};
  if (file->at < file->end && *file->at == '"') return quoted_cell(file, out);
  out->text = file->at;
  while (file->at < file->end && *file->at != ',' && *file->at != '\n') {
    if (*file->at == '"') return quote_error(file, out, "a quote within a cell that does not begin with one");
    file->at++;
  }
  out->n = (size_t)(file->at - out->text);
  if (file->at < file->end && *file->at == '\n' && out->n && file->at[-1] == '\r') out->n--;
  end_of_line(file, out);
  return true;
}

static void skip_empty_lines(csv *file) {
  while (file->at < file->end) {
    const unsigned char *at = file->at;
    if (*at == '\r' && at + 1 < file->end) at++;
    if (*at != '\n') return;
    file->at = at + 1;
    file->line++;
  }
}

/* ---- numbers ---- */

/* Decimal numbers, inf and nan with a sign; what strtof takes besides (hexadecimal, spaces) is none. */
static bool is_number(const char *text) {
  const char *at = text + (*text == '-' || *text == '+');
  if (!strcmp(at, "inf") || !strcmp(at, "nan")) return true;
  size_t whole = strspn(at, "0123456789"), part = 0;
  at += whole;
  if (*at == '.') {
    part = strspn(++at, "0123456789");
    at += part;
  }
  if (!whole && !part) return false;
  if (*at == 'e' || *at == 'E') {
    at++;
    at += *at == '-' || *at == '+';
    size_t digits = strspn(at, "0123456789");
    if (!digits) return false;
    at += digits;
  }
  return !*at;
}

static bool is_integer(const char *text) {
  const char *at = text + (*text == '-' || *text == '+');
  size_t digits = strspn(at, "0123456789");
  return digits && !at[digits];
}

/* What most cells are: a sign, and up to FEW_DIGITS digits with a point among or before them, as digits and how many
 * are after the point. False: it is something else. */
static bool plain_decimal(const csv_cell *cell, bool *negative, uint64_t *digits, size_t *n_after) {
  size_t i = 0, n_digits = 0, point = SIZE_MAX;
  if (!cell->n || cell->n > FEW_DIGITS + 2) return false;
  *negative = cell->text[0] == '-';
  if (*negative || cell->text[0] == '+') i++;
  for (*digits = 0; i < cell->n; i++) {
    unsigned char c = cell->text[i];
    if (c == '.' && point == SIZE_MAX) {
      point = i + 1;
    } else if (c >= '0' && c <= '9') {
      *digits = *digits * 10 + (c - (unsigned)'0');
      n_digits++;
    } else {
      return false;
    }
  }
  *n_after = point == SIZE_MAX ? 0 : cell->n - point;
  return n_digits && n_digits <= FEW_DIGITS;
}

/* Digits and the power of ten are doubles without error, so their quotient is the nearest double; and the float nearest
 * to that is the one nearest to the number, unless the double lies in the middle between two floats. */
static bool plain_f32(const csv_cell *cell, float *out) {
  static const double powers[FEW_DIGITS + 1] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  const uint64_t below = (UINT64_C(1) << 29) - 1, middle = UINT64_C(1) << 28;
  bool negative;
  uint64_t digits, bits;
  size_t n_after;
  if (!plain_decimal(cell, &negative, &digits, &n_after)) return false;
  double value = (double)digits / powers[n_after];
  memcpy(&bits, &value, sizeof bits);
  *out = (float)(negative ? -value : value);
  return (bits & below) != middle;
}

static bool plain_i32(const csv_cell *cell, int32_t *out) {
  bool negative;
  uint64_t digits;
  size_t n_after;
  if (!plain_decimal(cell, &negative, &digits, &n_after) || digits > INT32_MAX) return false;
  *out = negative ? -(int32_t)digits : (int32_t)digits;
  return !memchr(cell->text, '.', cell->n);
}

static bool parse_plain(const csv_cell *cell, sx_dtype dtype, void *out) {
  float real;
  int32_t integer;
  if (dtype == SX_F32) {
    if (!plain_f32(cell, &real)) return false;
    memcpy(out, &real, sizeof real);
  } else {
    if (!plain_i32(cell, &integer)) return false;
    memcpy(out, &integer, sizeof integer);
  }
  return true;
}

static bool parse_cell(const csv_cell *cell, sx_dtype dtype, void *out) {
  char text[LONGEST_NUMBER + 1];
  size_t n = cell->n, skip = 0;
  if (parse_plain(cell, dtype, out)) return true;
  while (skip < n && cell->text[skip] == ' ') skip++;
  while (n > skip && cell->text[n - 1] == ' ') n--;
  n -= skip;
  if (!n || n > LONGEST_NUMBER || memchr(cell->text + skip, 0, n)) return false;
  memcpy(text, cell->text + skip, n);
  text[n] = 0;
  char *end;
  if (dtype == SX_F32) {
    if (!is_number(text)) return false;
    float value = strtof(text, &end);
    memcpy(out, &value, sizeof value);
    return !*end;
  }
  if (!is_integer(text)) return false;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno || value < INT32_MIN || value > INT32_MAX) return false;
  int32_t stored = (int32_t)value;
  memcpy(out, &stored, sizeof stored);
  return true;
}

/* ---- rows ---- */

typedef struct csv_field {
  const char *name;
  sx_dtype dtype;
  int64_t first, n; /* columns, from 0 */
  unsigned char *values;
} csv_field;

typedef struct csv_table {
  csv_field *fields;
  uint32_t n_fields;
  int64_t n_columns, n_rows;
} csv_table;

/* Whether the cell is the name of a field that begins in its column. */
static bool names_field(const csv_table *table, const csv_cell *cell) {
  for (uint32_t f = 0; f < table->n_fields; f++) {
    const csv_field *field = &table->fields[f];
    if (field->first == cell->column - 1 && strlen(field->name) == cell->n && !memcmp(field->name, cell->text, cell->n))
      return true;
  }
  return false;
}

/* Reads the first row: counts the columns, and finds out whether it names every field. */
static bool first_row(csv *file, csv_table *table, bool *names) {
  uint32_t n_named = 0;
  csv_cell cell = {0};
  do {
    if (!next_cell(file, cell.column, &cell)) return false;
    n_named += names_field(table, &cell);
  } while (!cell.last);
  table->n_columns = cell.column;
  *names = n_named && n_named == table->n_fields;
  for (uint32_t f = 0; f < table->n_fields; f++) {
    const csv_field *field = &table->fields[f];
    if (field->first >= 0 && field->n <= table->n_columns && field->first <= table->n_columns - field->n) continue;
    sx_error(file->diags, SX_E_CSV_COLUMNS, file->span,
             "%s: field %s takes %" PRId64 " columns from column %" PRId64 ", counted from 0; there are %" PRId64,
             file->path, field->name, field->n, field->first, table->n_columns);
    return false;
  }
  return true;
}

static bool store_cell(csv *file, const csv_table *table, int64_t row, const csv_cell *cell) {
  for (uint32_t f = 0; f < table->n_fields; f++) {
    const csv_field *field = &table->fields[f];
    int64_t element = cell->column - 1 - field->first;
    if (element < 0 || element >= field->n) continue;
    if (parse_cell(cell, field->dtype, field->values + 4 * (row * field->n + element))) continue;
    int shown = cell->n > 60 ? 60 : (int)cell->n;
    sx_error(file->diags, SX_E_CSV_NUMBER, file->span,
             "%s: line %" PRId64 ", column %" PRId64 ": \"%.*s\" is no %s of field %s", file->path, cell->line,
             cell->column, shown, (const char *)cell->text, sx_dtype_name(field->dtype), field->name);
    return false;
  }
  return true;
}

/* One row after the header; store: into the fields' values. */
static bool read_row(csv *file, const csv_table *table, int64_t row, bool store) {
  csv_cell cell = {.line = file->line};
  do {
    if (!next_cell(file, cell.column, &cell)) return false;
    if (store && cell.column <= table->n_columns && !store_cell(file, table, row, &cell)) return false;
  } while (!cell.last);
  if (cell.column == table->n_columns) return true;
  sx_error(file->diags, SX_E_CSV_COLUMNS, file->span,
           "%s: line %" PRId64 " has %" PRId64 " columns, the first has %" PRId64, file->path, cell.line, cell.column,
           table->n_columns);
  return false;
}

/* All rows from where the file stands; counts them. */
static bool read_rows(csv *file, csv_table *table, bool store) {
  int64_t row = 0;
  for (skip_empty_lines(file); file->at < file->end; skip_empty_lines(file))
    if (!read_row(file, table, row++, store)) return false;
  table->n_rows = row;
  return true;
}

static bool read_table(csv *file, csv_table *table, bool has_header, sx_arena *arena) {
  bool names = false;
  skip_empty_lines(file);
  csv start = *file;
  if (file->at < file->end && !first_row(file, table, &names)) return false;
  if (!has_header && !names) *file = start;
  start = *file;
  if (!read_rows(file, table, false)) return false;
  for (uint32_t f = 0; f < table->n_fields; f++) {
    size_t row_bytes;
    if (__builtin_mul_overflow((size_t)table->fields[f].n, (size_t)4, &row_bytes)) sx_memory_fail(arena->memory);
    table->fields[f].values = sx_arena_take(arena, (size_t)table->n_rows, row_bytes);
  }
  *file = start;
  return read_rows(file, table, true);
}

/* ---- fields ---- */

static csv_table table_of(const sx_data *data, sx_arena *arena) {
  csv_table table = {.fields = SX_NEW_N(arena, csv_field, data->n_fields), .n_fields = data->n_fields};
  for (uint32_t f = 0; f < data->n_fields; f++) {
    const sx_source_field *field = &data->fields[f];
    table.fields[f] = (csv_field){.name = field->name,
                                  .dtype = field->dtype,
                                  .first = field->first_column,
                                  .n = field->n_columns ? field->n_columns : 1};
  }
  return table;
}

bool sx_open_csv(sx_dataset *dataset, const sx_data *data, sx_diags *diags) {
  sx_arena *arena = dataset->files.arena;
  sexp_file_info info = {0};
  sx_file *opened = sx_files_open(&dataset->files, data->path, &info, data->span, diags);
  if (!opened) return false;
  csv file = {opened->path, info.bytes, info.bytes + info.n_bytes, info.bytes, 1, data->span, diags};
  if (info.n_bytes >= 3 && !memcmp(info.bytes, "\xef\xbb\xbf", 3)) file.at += 3;
  csv_table table = table_of(data, arena);
  if (!read_table(&file, &table, data->csv_header, arena)) return false;
  sx_field_type *fields = SX_NEW_N(arena, sx_field_type, table.n_fields);
  sx_part *parts = SX_NEW_N(arena, sx_part, table.n_fields);
  for (uint32_t f = 0; f < table.n_fields; f++) {
    const csv_field *field = &table.fields[f];
    fields[f] = (sx_field_type){.name = field->name, .dtype = field->dtype, .rank = data->fields[f].n_columns ? 1 : 0};
    fields[f].dims[0] = field->n;
    parts[f] = (sx_part){field->values, 4u * (uint64_t)field->n, field->dtype == SX_I32 ? SX_HOST_I32 : SX_HOST_F32,
                         opened->path};
  }
  return sx_dataset_append(dataset, fields, table.n_fields, parts, table.n_rows, data->path, diags);
}
