/* Tests of passes as files: usage run_pass [--update] FOLDER. Every *.txt below the folder holds a line
 * "passes NAME...", the text of a graph, a line "gives", and the text of the graph that the passes give.
 * --update writes what they give now. Ends with "N passed, N failed". */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/graphs.h"

enum { FILE_MAX = 1 << 20, PATH_BYTES = 1024, NAMES_MAX = 1000 };

typedef struct counts {
  int passed, failed;
  bool update;
} counts;

static char *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  char *text = malloc(FILE_MAX);
  size_t n = fread(text, 1, FILE_MAX - 1, file);
  fclose(file);
  text[n] = 0;
  return text;
}

/* What the passes give of the text, or the error. */
static const char *apply(graphs *g, const char *passes, const char *text) {
  sx_graph *graph = graphs_parse(g, text);
  if (graph && !sx_graph_verify(graph, SX_STAGE_BUILT, &g->diags)) graph = NULL;
  if (graph) graph = graphs_apply(g, graph, passes);
  return graph ? graphs_print(g, graph) : sx_format(&g->arena, "%s\n", graphs_error(g));
}

static bool write_file(const char *path, const char *passes, const char *before, const char *after) {
  FILE *file = fopen(path, "wb");
  if (!file) return false;
  fprintf(file, "passes%s\n%sgives\n%s", passes, before, after);
  return fclose(file) == 0;
}

static void run_file(counts *c, const char *path) {
  char *text = read_file(path);
  char *line = text ? strchr(text, '\n') : NULL, *gives = text ? strstr(text, "\ngives\n") : NULL;
  bool good = line && gives && gives > line && strncmp(text, "passes ", 7) == 0;
  if (good) {
    graphs g;
    graphs_init(&g);
    *line = 0;
    gives[1] = 0;
    const char *given = apply(&g, text + 6, line + 1);
    good = strcmp(given, gives + 7) == 0;
    if (!good && c->update) good = write_file(path, text + 6, line + 1, given);
    if (!good) printf("%s: expected\n%sgiven\n%s", path, gives + 7, given);
    graphs_free(&g);
  } else {
    printf("%s: not of the form: passes, graph, gives, graph\n", path);
  }
  c->passed += good;
  c->failed += !good;
  free(text);
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Runs every file of the folder and of those in it, by name. */
static void run_folder(counts *c, const char *folder, int depth) {
  DIR *dir = opendir(folder);
  char *names[NAMES_MAX];
  int n = 0;
  for (struct dirent *entry = dir ? readdir(dir) : NULL; entry && n < NAMES_MAX; entry = readdir(dir))
    if (entry->d_name[0] != '.') names[n++] = strdup(entry->d_name);
  if (dir) closedir(dir);
  qsort(names, (size_t)n, sizeof *names, compare_names);
  for (int i = 0; i < n; i++) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    const char *ending = strrchr(names[i], '.');
    if (ending && strcmp(ending, ".txt") == 0)
      run_file(c, path);
    else if (!ending && depth > 0)
      run_folder(c, path, depth - 1);
    free(names[i]);
  }
}

int main(int argc, char **argv) {
  counts c = {.update = argc == 3 && strcmp(argv[1], "--update") == 0};
  if (argc != 2 && !c.update) return fprintf(stderr, "usage: run_pass [--update] FOLDER\n"), 2;
  run_folder(&c, argv[argc - 1], 2);
  printf("%d passed, %d failed\n", c.passed, c.failed);
  return c.failed > 0 || c.passed == 0;
}
