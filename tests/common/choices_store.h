/* For tests: stores in the scratch directory. */
#ifndef TEST_CHOICES_STORE_H
#define TEST_CHOICES_STORE_H

#include "../../libchoices/choices.h"

extern const choices_device store_test_device;
extern const choices_executable store_test_executable;
extern const choices_key store_test_product, store_test_engine;

choices_store *store_test_open(const char *name, choices_access access);
void store_test_refuses(const char *name, choices_access access, const char *code, const char *word);
/* What a key has now; value NULL: nothing. */
void store_test_has(choices_store *store, const choices_key *key, const char *value, const char *origin);
/* Decides a value; what is then in the store. */
void store_test_decide(choices_store *store, const choices_key *key, const char *value, const char *then);
char *store_test_export(choices_store *store, bool measurements); /* owned */
choices_status store_test_import(choices_store *store, const char *text, choices_conflict conflict,
                                 choices_imported *counts, choices_error *error);
uint64_t store_test_draw(uint64_t *state); /* the next of a fixed sequence of numbers */
int store_test_empty(void **state);        /* a setup of cmocka: an empty scratch directory */

#endif
