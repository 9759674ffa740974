/* Any bytes as the lines after a device's header: an error, or a stream that prints, compares and pins. */
#include "choices.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char header[] =
      "{\"record\": \"choices\", \"version\": 1, \"device\": \"d\"}\n{\"record\": \"choice\", ";
  char *text = malloc(sizeof header + size);
  fuzz_expect(text != NULL);
  memcpy(text, header, sizeof header - 1);
  if (size) memcpy(text + sizeof header - 1, data, size);
  fuzz_record((const uint8_t *)text, sizeof header - 1 + size);
  free(text);
  return 0;
}
