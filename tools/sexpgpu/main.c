/* sexpgpu: finds and becomes the tools, as `sexpgpu run ...` does sexpgpu-run. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/failure.h"

#define PREFIX "sexpgpu-"
enum { NAME_LENGTH = 64, N_FOUND = 64 };

static const struct {
  const char *name, *purpose;
} known[] = {
    {"run", "compile an experiment and train one of its runs"},
    {"evaluate", "run a run's evaluations from its checkpoints"},
    {"checkpoint", "show, verify, compare, copy, bundle, prune checkpoints"},
    {"choices", "list, export, import, compare recorded choices"},
    {"explain", "how an experiment will be computed"},
    {"doctor", "what this machine can run, and what is wrong with it"},
};
enum { N_KNOWN = sizeof known / sizeof *known };

/* ---- where tools are ---- */

/* The directory that this program lies in; "" where the system does not tell. */
static const char *own_directory(void) {
  static char path[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  path[n > 0 ? n : 0] = 0;
  char *slash = strrchr(path, '/');
  if (slash) slash[slash == path] = 0;
  return path;
}

static bool join(char path[PATH_MAX], const char *directory, size_t n_directory, const char *name) {
  int n = snprintf(path, PATH_MAX, "%.*s/" PREFIX "%s", (int)n_directory, directory, name);
  return n > 0 && n < PATH_MAX && access(path, X_OK) == 0;
}

/* Calls for the own directory, then each of PATH, until one answers true. */
static bool each_directory(bool (*look)(const char *directory, size_t n, void *context), void *context) {
  const char *own = own_directory(), *at = getenv("PATH");
  if (own[0] && look(own, strlen(own), context)) return true;
  while (at) {
    size_t n = strcspn(at, ":");
    if (look(n ? at : ".", n ? n : 1, context)) return true;
    at = at[n] ? at + n + 1 : NULL;
  }
  return false;
}

typedef struct search {
  const char *name;
  char path[PATH_MAX];
} search;

static bool look_for(const char *directory, size_t n, void *context) {
  search *s = context;
  return join(s->path, directory, n, s->name);
}

static bool find(search *s, const char *name) {
  s->name = name;
  return each_directory(look_for, s);
}

/* ---- all there are ---- */

typedef struct names {
  char items[N_FOUND][NAME_LENGTH];
  size_t n;
} names;

static bool is_name(const char *name) {
  size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");
  return n > 0 && n < NAME_LENGTH && !name[n] && name[0] != '-';
}

static void add_name(names *all, const char *name) {
  for (size_t i = 0; i < all->n; i++)
    if (strcmp(all->items[i], name) == 0) return;
  if (all->n < N_FOUND && is_name(name)) snprintf(all->items[all->n++], NAME_LENGTH, "%.*s", NAME_LENGTH - 1, name);
}

static bool look_at_all(const char *directory, size_t n, void *context) {
  char path[PATH_MAX];
  if (n >= sizeof path) return false;
  memcpy(path, directory, n);
  path[n] = 0;
  DIR *open = opendir(path);
  for (struct dirent *entry; open && (entry = readdir(open));)
    if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0 && join(path, directory, n, entry->d_name + strlen(PREFIX)))
      add_name(context, entry->d_name + strlen(PREFIX));
  if (open) closedir(open);
  return false;
}

static int by_name(const void *left, const void *right) { return strcmp(left, right); }

/* The known in their order, then others that are there, by name. */
static void list_names(names *all) {
  for (size_t i = 0; i < N_KNOWN; i++) add_name(all, known[i].name);
  each_directory(look_at_all, all);
  qsort(all->items[N_KNOWN], all->n - N_KNOWN, NAME_LENGTH, by_name);
}

static void print_help(void) {
  static names all;
  static search s;
  list_names(&all);
  puts(
      "usage: sexpgpu TOOL [ARGUMENT]...     runs sexpgpu-TOOL\n       sexpgpu help TOOL            shows its "
      "manual\n");
  for (size_t i = 0; i < all.n; i++)
    printf("%s %-12s %s\n", find(&s, all.items[i]) ? "*" : " ", all.items[i], i < N_KNOWN ? known[i].purpose : "");
  puts("\n* is found, beside this program or in PATH. man sexpgpu says everything.");
}

/* ---- a name that none has ---- */

/* Letters to insert, remove or replace. */
static size_t distance(const char *a, const char *b) {
  size_t row[NAME_LENGTH + 1], n = strlen(b);
  for (size_t j = 0; j <= n; j++) row[j] = j;
  for (size_t i = 0; a[i]; i++) {
    size_t corner = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < n; j++) {
      size_t best = corner + (a[i] != b[j]);
      if (row[j + 1] + 1 < best) best = row[j + 1] + 1;
      if (row[j] + 1 < best) best = row[j] + 1;
      corner = row[j + 1];
      row[j + 1] = best;
    }
  }
  return row[n];
}

static int refuse(const char *name) {
  static names all;
  char list[256] = "";
  size_t best = 3, at = 0;
  if (name[0] == '-') return tool_fail(TOOL_INPUT, TOOL_E_ENV_OPTION, "unknown option %s", name);
  list_names(&all);
  for (size_t i = 0; i < all.n && strlen(name) < NAME_LENGTH; i++) {
    size_t now = strncmp(all.items[i], name, strlen(name)) == 0 ? 1 : distance(name, all.items[i]);
    if (now > best || at + NAME_LENGTH + 8 > sizeof list) continue;
    if (now < best) at = 0;
    best = now;
    at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? " or " : "", all.items[i]);
  }
  for (size_t i = 0; i < N_KNOWN; i++)
    if (strcmp(known[i].name, name) == 0)
      return tool_fail(TOOL_INPUT, TOOL_E_ENV_COMMAND, PREFIX "%s is neither in %s nor in PATH", name, own_directory());
  return tool_fail(TOOL_INPUT, TOOL_E_ENV_COMMAND, "there is no tool \"%s\"%s%s%s", name, at ? "; did you mean " : "",
                   list, at ? "?" : "");
}

/* ---- becoming another program ---- */

static int become(const char *path, char **argv) {
  execv(path, argv);
  return tool_fail(TOOL_INPUT, TOOL_E_ENV_COMMAND, "%s cannot be started: %s", path, strerror(errno));
}

/* The page beside the programs, the one that man finds, or where there is no man the tool's own words. */
static int show_manual(const char *name) {
  search s;
  char page[PATH_MAX], title[NAME_LENGTH + 16] = "sexpgpu", help[] = "--help";
  bool itself = !name || strcmp(name, "sexpgpu") == 0;
  if (!itself && (!is_name(name) || !find(&s, name))) return refuse(name);
  if (!itself) snprintf(title, sizeof title, PREFIX "%s", name);
  int n = snprintf(page, sizeof page, "%s/../share/man/man1/%s.1", own_directory(), title);
  bool beside = n > 0 && n < (int)sizeof page && access(page, R_OK) == 0;
  execlp("man", "man", beside ? page : title, (char *)NULL);
  if (!itself) return become(s.path, (char *[]){title, help, NULL});
  print_help();
  return TOOL_DONE;
}

static int dispatch(int argc, char **argv) {
  search s;
  const char *name = argc > 1 ? argv[1] : "--help";
  char title[NAME_LENGTH + 16];
  if (strcmp(name, "--help") == 0 || (strcmp(name, "help") == 0 && argc < 3)) return print_help(), TOOL_DONE;
  if (strcmp(name, "--version") == 0) return printf("sexpgpu %s\n", SEXPGPU_VERSION), TOOL_DONE;
  if (strcmp(name, "help") == 0) return show_manual(argv[2]);
  if (!is_name(name) || !find(&s, name)) return refuse(name);
  snprintf(title, sizeof title, PREFIX "%s", name);
  argv[1] = title;
  return become(s.path, argv + 1);
}

int main(int argc, char **argv) { return tool_end_output(dispatch(argc, argv)); }
