/* Numbers as a person reads them. */
#ifndef TOOL_FORMAT_H
#define TOOL_FORMAT_H

#include <stdint.h>

/* "9 840" into text: an integer in groups of three. */
const char *tool_grouped(char text[32], int64_t number);
/* "14.2 MiB" into text. */
const char *tool_bytes(char text[32], int64_t n_bytes);
/* What follows a noun that is counted: "" for one, else "s". */
const char *tool_plural(int64_t n);

#endif
