/* CUDASIM_SETTINGS and the facts of the card. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

static const char *const KNOWN[] = {
#define SIM_SETTING(name) name,
#include "settings.def"
#undef SIM_SETTING
};
enum { N_KNOWN = sizeof KNOWN / sizeof *KNOWN };

static char **settings; /* "name=value" */
static size_t n_settings;
static json_t *card;
static char *card_text;
static bool read_once;
static uint64_t random_state;

/* The last one of a name counts. */
static const char *find_setting(const char *name) {
  size_t n = strlen(name);
  for (size_t i = n_settings; i-- > 0;)
    if (strncmp(settings[i], name, n) == 0 && settings[i][n] == '=') return settings[i] + n + 1;
  return NULL;
}

/* A library may ask before the driver is called. */
const char *sim_setting(const char *name) {
  sim_settings_ready();
  return find_setting(name);
}

const char *sim_setting_at(size_t i) {
  sim_settings_ready();
  return i < n_settings ? settings[i] : NULL;
}

static double number_of(const char *name, const char *value) {
  char *end = NULL;
  double number = strtod(value, &end);
  if (end == value || *end) sim_violation("setting %s=%s: a number was expected", name, value);
  return number;
}

double sim_setting_number(const char *name, double otherwise) {
  const char *value = sim_setting(name);
  return value ? number_of(name, value) : otherwise;
}

static bool known(const char *setting) {
  size_t n = strcspn(setting, "=");
  for (size_t i = 0; i < N_KNOWN; i++) {
    size_t length = strlen(KNOWN[i]);
    bool family = KNOWN[i][length - 1] == '.';
    if (strncmp(setting, KNOWN[i], length) == 0 && (family ? n > length : n == length)) return setting[n] == '=';
  }
  return false;
}

static void split(const char *text) {
  for (const char *at = text; *at;) {
    size_t n = strcspn(at, "\n");
    if (n) {
      settings = realloc(settings, (n_settings + 1) * sizeof *settings);
      if (!settings) abort();
      char *copy = settings[n_settings++] = sim_allocate(n + 1);
      memcpy(copy, at, n);
      if (!known(copy)) sim_violation("there is no setting \"%s\" (tests/cudasim/README.md)", copy);
    }
    at += n + (at[n] == '\n');
  }
}

/* ---- the card ------------------------------------------------------------------------------------- */

static void set_fact(const char *name, int64_t value) { json_object_set_new(card, name, json_integer(value)); }

/* "8.6" is 860. */
static int64_t capability_of(const char *text) {
  unsigned major = 0, minor = 0;
  char after = 0;
  if (sscanf(text, "%u.%u%c", &major, &minor, &after) != 2)
    sim_violation("setting device.capability=%s: a capability such as 8.0 was expected", text);
  return (int64_t)major * 100 + (int64_t)minor * 10;
}

static void apply_device(const char *name, const char *value) {
  if (strcmp(name, "name") == 0)
    json_object_set_new(card, "deviceName", json_string(value));
  else if (strcmp(name, "capability") == 0)
    set_fact("deviceVer", capability_of(value));
  else if (strcmp(name, "multiprocessors") == 0)
    set_fact("multiProcessorCount", (int64_t)number_of(name, value));
  else if (json_is_integer(json_object_get(card, name)))
    set_fact(name, (int64_t)number_of(name, value));
  else
    sim_violation("setting device.%s: no number of tests/cuda/*.json has that name", name);
}

static void apply(void) {
  for (size_t i = 0; i < n_settings; i++) {
    if (strncmp(settings[i], "device.", 7) != 0) continue;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(strcspn(settings[i], "=") - 7), settings[i] + 7);
    apply_device(name, strchr(settings[i], '=') + 1);
  }
  if (sim_setting("memory.total"))
    set_fact("totalGlobalMem", (int64_t)(sim_setting_number("memory.total", 0) * 0x1p30));
  if (sim_setting("driver.version")) set_fact("driverVer", (int64_t)sim_setting_number("driver.version", 0));
}

static void read_all(void) {
  const char *text = getenv("CUDASIM_SETTINGS");
  split(text ? text : "");
  json_error_t error;
  const char *path = find_setting("card");
  if (path) card = json_load_file(path, 0, &error);
  if (!card) {
    sim_violation("%s%s: start with tests/cudasim/run, which names a card", path ? path : "no card",
                  path ? error.text : "");
    return;
  }
  apply();
  card_text = json_dumps(card, JSON_COMPACT | JSON_PRESERVE_ORDER);
}

bool sim_settings_ready(void) {
  sim_lock();
  if (!read_once) {
    read_once = true;
    read_all();
  }
  sim_unlock();
  return card != NULL;
}

int64_t sim_card_fact(const char *name) {
  return sim_settings_ready() ? json_integer_value(json_object_get(card, name)) : 0;
}

const char *sim_card_name(void) {
  return sim_settings_ready() ? json_string_value(json_object_get(card, "deviceName")) : "no card";
}

const char *sim_card_json(void) { return sim_settings_ready() ? card_text : "{}"; }

/* ---- what the settings say ------------------------------------------------------------------------ */

int sim_device_count(void) { return sim_settings_ready() ? (int)sim_setting_number("count", 1) : 0; }
int sim_driver_version(void) { return (int)sim_card_fact("driverVer"); }

static bool one_of(const char *name, const char *yes, const char *no, bool otherwise) {
  const char *value = sim_setting(name);
  if (!value) return otherwise;
  if (strcmp(value, yes) != 0 && strcmp(value, no) != 0)
    sim_violation("setting %s=%s: %s or %s was expected", name, value, yes, no);
  return strcmp(value, yes) == 0;
}

bool sim_violations_end(void) { return one_of("violations", "end", "report", true); }
bool sim_races_watched(void) { return one_of("races", "on", "off", true); }

sim_order sim_order_of_settings(void) {
  static int order = -1;
  if (order >= 0) return (sim_order)order;
  const char *value = sim_setting("order");
  order = SIM_ORDER_FORWARD;
  if (!value || strcmp(value, "forward") == 0) return SIM_ORDER_FORWARD;
  if (strcmp(value, "eager") == 0)
    order = SIM_ORDER_EAGER;
  else if (strcmp(value, "reverse") == 0)
    order = SIM_ORDER_REVERSE;
  else if (strcmp(value, "lazy") == 0)
    order = SIM_ORDER_LAZY;
  else if (strncmp(value, "random:", 7) == 0)
    order = SIM_ORDER_RANDOM, random_state = strtoull(value + 7, NULL, 10);
  else
    sim_violation("setting order=%s: forward, eager, reverse, lazy or random:SEED was expected", value);
  return (sim_order)order;
}

uint64_t sim_random(void) {
  random_state += 0x9E3779B97F4A7C15u;
  uint64_t x = random_state;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

bool sim_fails_at(const char *setting, uint64_t n) {
  const char *at = sim_setting(setting);
  while (at && *at) {
    char *end = NULL;
    uint64_t from = strtoull(at, &end, 10), to = from;
    if (end == at) break;
    if (*end == '-') to = end[1] >= '0' && end[1] <= '9' ? strtoull(end + 1, &end, 10) : (end++, UINT64_MAX);
    if (n >= from && n <= to) return true;
    at = *end == ',' ? end + 1 : end;
    if (*end && *end != ',') break;
  }
  if (at && *at)
    sim_violation("setting %s=%s: counts such as 3, 3,7, 3-5 or 5- were expected", setting, sim_setting(setting));
  return false;
}
