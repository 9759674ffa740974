/* cmocka with what it needs before it. */
#ifndef TEST_CMOCKA_ALL_H
#define TEST_CMOCKA_ALL_H

/* The order matters. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#endif
