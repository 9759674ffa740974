/* The passes from a graph as the language builds it to one that is planned; compile.c lists them in order.
 * Each gives a new graph (or the same, where it changes nothing) in the arena of its input. */
#ifndef SX_PASS_PASS_H
#define SX_PASS_PASS_H

#include "../ir/ir.h"

/* NULL: errors are in diags. */
typedef sx_graph *sx_pass(sx_graph *graph, sx_diags *diags);

sx_pass sx_pass_gradient; /* BUILT -> EXPANDED: expands GRAD, drops STOP. E-GRAD */
sx_pass sx_pass_simplify; /* EXPANDED -> EXPANDED: exact identities only */
sx_pass sx_pass_cse;      /* EXPANDED -> EXPANDED: equal nodes become one */
sx_pass sx_pass_dce;      /* EXPANDED -> READY: only what outputs need, and inputs */

#endif
