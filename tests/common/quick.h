/* How much a test does where all of it takes too long. */
#ifndef TESTS_QUICK_H
#define TESTS_QUICK_H

#include <stdbool.h>

/* Whether QUICK (docs/testing.md) is set to something but "tools", which shortens only what no compiler changes. */
bool test_is_quick(void);

#endif
