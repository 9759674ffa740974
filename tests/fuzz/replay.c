/* Runs a harness without a fuzzer: every file of the directories (and every file) given, in order of their names.
 * Ends with one line "N passed, 0 failed"; a failure ends the program as it would end the fuzzer. */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
  FILE *file = fopen(path, "rb");
  long size = -1;
  if (file && fseek(file, 0, SEEK_END) == 0) size = ftell(file);
  uint8_t *data = size >= 0 ? malloc((size_t)size + (size == 0)) : NULL;
  bool good = data && fseek(file, 0, SEEK_SET) == 0 && fread(data, 1, (size_t)size, file) == (size_t)size;
  if (file) fclose(file);
  if (good) {
    printf("%s\n", path);
    fflush(stdout);
    LLVMFuzzerTestOneInput(data, (size_t)size);
  } else {
    fprintf(stderr, "%s: cannot be read\n", path);
  }
  free(data);
  return good ? 0 : -1;
}

static int by_text(const void *left, const void *right) { return strcmp(*(char *const *)left, *(char *const *)right); }

/* The files of a directory; the number replayed, -1 where one could not be read. */
static int replay_directory(const char *path) {
  DIR *directory = opendir(path);
  char **names = NULL;
  int n = 0, failed = !directory;
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    if (entry->d_name[0] == '.') continue;
    size_t n_bytes = strlen(path) + strlen(entry->d_name) + 2;
    char **grown = realloc(names, ((size_t)n + 1) * sizeof *names), *name = malloc(n_bytes);
    if (!grown || !name) abort();
    snprintf(name, n_bytes, "%s/%s", path, entry->d_name);
    names = grown;
    names[n++] = name;
  }
  if (directory) closedir(directory);
  if (n) qsort(names, (size_t)n, sizeof *names, by_text);
  for (int i = 0; i < n; i++) {
    failed |= replay_file(names[i]) != 0;
    free(names[i]);
  }
  free(names);
  return failed ? -1 : n;
}

int main(int argc, char **argv) {
  int passed = 0, failed = 0;
  for (int i = 1; i < argc; i++) {
    struct stat status;
    bool is_directory = stat(argv[i], &status) == 0 && S_ISDIR(status.st_mode);
    int n = is_directory ? replay_directory(argv[i]) : replay_file(argv[i]) == 0 ? 1 : -1;
    if (n < 0) fprintf(stderr, "%s: not all of it could be read\n", argv[i]);
    failed += n < 0;
    passed += n < 0 ? 0 : n;
  }
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
