/* Any bytes as a .npz file: an error that names what is wrong, or tensors that can be read. */
#include "tensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_tensors("fuzz.npz", data, size); }
