#include "table.h"

#include <stdlib.h>
#include <string.h>

#include "failure.h"

void table_row(table *t) {
  if (t->n_rows == t->room) {
    t->room = t->room ? t->room * 2 : 16;
    t->rows = realloc(t->rows, t->room * sizeof *t->rows);
    if (!t->rows) exit(tool_no_memory());
  }
  memset(t->rows[t->n_rows++], 0, sizeof *t->rows);
}

void table_cell(table *t, char *text) {
  char **cells = t->rows[t->n_rows - 1];
  size_t i = 0;
  while (cells[i]) i++;
  cells[i] = text;
}

void table_put(const char *text, FILE *to) {
  for (const char *c = text; *c; c++) putc((unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c, to);
}

/* Characters, not bytes, of UTF-8. */
static size_t width_of(const char *text) {
  size_t n = 0;
  for (const char *c = text; *c; c++) n += ((unsigned char)*c & 0xc0) != 0x80;
  return n;
}

static void pad(size_t n, FILE *to) {
  for (size_t i = 0; i < n; i++) putc(' ', to);
}

static size_t column_width(const table *t, size_t column) {
  size_t n_columns = strlen(t->align), widest = 0;
  for (size_t i = 0; i < t->n_rows; i++) {
    const char *cell = t->rows[i][column];
    bool ends = column + 1 < n_columns && !t->rows[i][column + 1] && column > 0;
    size_t width = cell && !ends ? width_of(cell) : 0;
    if (width > widest) widest = width;
  }
  return widest;
}

void table_print(const table *t, FILE *to) {
  size_t widths[TABLE_COLUMNS], n_columns = strlen(t->align);
  for (size_t i = 0; i < n_columns; i++) widths[i] = column_width(t, i);
  for (size_t row = 0; row < t->n_rows; row++) {
    char *const *cells = t->rows[row];
    for (size_t i = 0; i < n_columns && cells[i]; i++) {
      size_t width = width_of(cells[i]), missing = widths[i] > width ? widths[i] - width : 0;
      bool last = i + 1 == n_columns || !cells[i + 1];
      if (i > 0) pad(2, to);
      if (t->align[i] == 'r' && !(last && i + 1 < n_columns)) pad(missing, to);
      table_put(cells[i], to);
      if (t->align[i] == 'l' && !last) pad(missing, to);
    }
    putc('\n', to);
  }
}

void table_free(table *t) {
  for (size_t row = 0; row < t->n_rows; row++)
    for (size_t i = 0; i < TABLE_COLUMNS; i++) free(t->rows[row][i]);
  free(t->rows);
  *t = (table){.align = t->align};
}
