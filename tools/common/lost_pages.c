#include "lost_pages.h"

#include <signal.h>
#include <unistd.h>

#include "failure.h"

static void on_lost_pages(int number) {
  static const char words[] =
      "E-DATA-103: a file was cut off while it was read\n"
      "  hint: write a new file and rename it over the old one while nothing reads it\n";
  (void)number;
  if (write(STDERR_FILENO, words, sizeof words - 1) < 0) _exit(TOOL_STORAGE);
  _exit(TOOL_STORAGE);
}

void tool_lost_pages_catch(void) { signal(SIGBUS, on_lost_pages); }
