/* Dead code: leaves out what no output needs. Needs EXPANDED, gives READY.
 *
 *   %0 = input {name "field/x"} : f32 [3]
 *   %1 = exp %0 : f32 [3]
 *   %2 = neg %0 : f32 [3]
 *   output "y" %2
 * becomes
 *   %0 = input {name "field/x"} : f32 [3]
 *   %1 = neg %0 : f32 [3]
 *   output "y" %1 */
#include "pass.h"

sx_graph *sx_pass_dce(sx_graph *graph, sx_diags *diags) {
  (void)diags;
  return sx_graph_extract(graph, graph->name, graph->outputs.items, graph->outputs.n);
}
