/* Any bytes as a record of choices: an error, or a record that prints, compares, pins and merges with itself. */
#include "choices.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  choices_request request;
  choices_member members[8];
  char room[64], word[64];
  size_t n = size < sizeof word - 1 ? size : sizeof word - 1;
  if (n) memcpy(word, data, n);
  word[n] = 0;
  choices_request_parse(&request, word, NULL);
  choices_key_members(members, 8, room, sizeof room, word);
  fuzz_record(data, size);
  return 0;
}
