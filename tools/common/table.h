/* Rows of texts in aligned columns, as a person reads them. */
#ifndef TOOL_TABLE_H
#define TOOL_TABLE_H

#include <stdio.h>

enum { TABLE_COLUMNS = 8 };

typedef struct table {
  const char *align; /* one 'l' or 'r' a column */
  char *(*rows)[TABLE_COLUMNS];
  size_t n_rows, room;
} table;

/* Adds a cell, which is taken over, to the last row; a cell that starts a row begins one. The last cell of a row that
 * has fewer than all does not widen its column. */
void table_row(table *t);
void table_cell(table *t, char *text);
void table_print(const table *t, FILE *to);
void table_free(table *t);

/* A text with control characters as '?': what another program wrote cannot move a terminal's cursor. */
void table_put(const char *text, FILE *to);

#endif
