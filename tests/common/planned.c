#include "planned.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random_graph.h"

planned *planned_empty(void) {
  planned *p = calloc(1, sizeof *p);
  if (!p) abort();
  p->memory = sx_memory_default();
  sx_arena_init(&p->arena, &p->memory);
  sx_intern_init(&p->names, &p->arena);
  return p;
}

static void check_graph(planned *p, sx_diags *diags) {
  if (p->graph) sx_graph_verify(p->graph, SX_STAGE_READY, diags);
  for (size_t i = 0; i < diags->list.n; i++) fprintf(stderr, "%s\n", diags->list.items[i].message);
  if (diags->n_errors) abort();
}

planned *planned_text(const char *text) {
  planned *p = planned_empty();
  sx_diags diags;
  sx_diags_init(&diags, &p->arena);
  p->graph = sx_graph_parse(&p->arena, &p->names, text, strlen(text), &diags);
  check_graph(p, &diags);
  return p;
}

planned *planned_random(uint64_t seed, int n_nodes) {
  planned *p = planned_empty();
  sx_diags diags;
  sx_diags_init(&diags, &p->arena);
  p->graph = random_graph(&p->arena, &p->names, seed, n_nodes);
  check_graph(p, &diags);
  return p;
}

void planned_free(planned *p) {
  sx_arena_free(&p->arena);
  free(p);
}

sx_plan *planned_plan(planned *p, bool fuse, bool reuse) {
  return sx_plan_make(p->graph, &(sx_plan_options){.fuse = fuse, .reuse = reuse}, &p->arena);
}

sx_plan *planned_engine_plan(planned *p, bool fuse, bool reuse) {
  sx_plan_options options = {.fuse = fuse, .reuse = reuse, .layout = fuse, .wait = fuse, .columns = fuse};
  options.join = fuse;
  return sx_plan_make(p->graph, &options, &p->arena);
}

const char *planned_print(planned *p, bool fuse, bool reuse) {
  sx_text text;
  sx_text_init(&text, &p->arena);
  sx_plan_print(&text, planned_plan(p, fuse, reuse));
  return sx_text_get(&text);
}
