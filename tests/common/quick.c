#include "quick.h"

#include <stdlib.h>
#include <string.h>

bool test_is_quick(void) {
  const char *quick = getenv("QUICK");
  return quick && *quick && strcmp(quick, "tools") != 0;
}
