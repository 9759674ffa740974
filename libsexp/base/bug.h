/* A bug is not an error: it names its place and aborts. Errors of a user go to diagnostics. */
#ifndef SX_BASE_BUG_H
#define SX_BASE_BUG_H

_Noreturn void sx_bug(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define SX_BUG(...) sx_bug(__FILE__, __LINE__, __VA_ARGS__)
#define SX_ASSERT(condition) ((condition) ? (void)0 : SX_BUG("does not hold: %s", #condition))

#endif
