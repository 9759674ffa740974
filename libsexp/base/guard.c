#include "guard.h"

bool sx_guard(sx_memory *memory, sx_guarded *body, void *context) {
  jmp_buf escape;
  jmp_buf *outer = memory->escape;
  memory->escape = &escape;
  if (setjmp(escape)) {
    memory->escape = outer;
    return false;
  }
  body(context);
  memory->escape = outer;
  return true;
}
