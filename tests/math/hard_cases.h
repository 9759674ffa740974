/* placeholder until generated */
#ifndef SX_TESTS_HARD_CASES_H
#define SX_TESTS_HARD_CASES_H
#include <stdint.h>
static const struct sx_hard_case {
  const char *name;
  uint32_t input, right;
} sx_hard_cases[] = {
{"exp2",0x3b429d37u,0x3f804385u},{"exp2",0xbcf3a937u,0x3f7ac6b1u},{"sin",0x46199998u,0xbeb1fa5du},{"sin",0xc6199998u,0x3eb1fa5du},{"cos",0x5922aa80u,0x3f08aebfu},{"cos",0x5f18b878u,0x3f7f14bbu},{"cos",0x6115cb11u,0x3f78142fu},{"erf",0x3940ead6u,0x3959af14u},};
#endif
