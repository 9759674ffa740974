#include "checkpoint.h"

ckpt_experiment checkpoint_sample(int64_t step, float value) {
  static float weights[6], moments[6];
  static int32_t count;
  static uint16_t half[3];
  static const ckpt_text_file sources[] = {{"exp.sexp", "(include \"model.sexp\")\n(defrun tiny)\n"},
                                           {"model.sexp", "; caf\xc3\xa9 \"quoted\"\n"}};
  static const ckpt_knob knobs[] = {
      {"width", "128", "default"}, {"lr", "0.001", "set"}, {"names", "[\"a\", true, null]", "variant"}};
  static const ckpt_load load = {"weights.safetensors", "model.w", 4096,
                                 "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"};
  static const ckpt_data_source data[] = {{"text", "kjv.txt", 4400000, "sha256:00"}, {NULL, "more.txt", 1, NULL}};
  static ckpt_array parameters[2], states[2];
  for (int i = 0; i < 6; i++) weights[i] = value + (float)i;
  for (int i = 0; i < 6; i++) moments[i] = value / 2;
  count = (int32_t)step;
  parameters[0] =
      (ckpt_array){.path = "layer/w", .dtype = CKPT_F32, .rank = 2, .dims = {2, 3}, .data = weights, .load = &load};
  parameters[1] = (ckpt_array){.path = "layer/b", .dtype = CKPT_BF16, .rank = 1, .dims = {3}, .data = half};
  states[0] = (ckpt_array){.path = "layer/w/m", .dtype = CKPT_F32, .rank = 2, .dims = {2, 3}, .data = moments};
  states[1] = (ckpt_array){.path = "count", .dtype = CKPT_I32, .data = &count};
  return (ckpt_experiment){
      .slug = "tiny-7f3a",
      .sources = sources,
      .n_sources = 2,
      .run = "tiny",
      .knobs = knobs,
      .n_knobs = 3,
      .step = step,
      .records = 32 * step,
      .stage = 0,
      .seed = 1,
      .identity = "sha256:1234",
      .parameters = parameters,
      .states = states,
      .n_parameters = 2,
      .n_states = 2,
      .data = data,
      .n_data = 2,
      .gpus = 0,
      .nodes = 1,
      .choices = "{\"device\": \"cpu, numerics 1\", \"numerics\": 1, \"recompute\": 10.5, \"strict\": false}",
      .tool_version = "0.1.0",
      .tool_build = "gcc",
      .created = "2026-01-02T03:04:05Z",
      .extra = "{\"note\": {\"x\": [1, 2.0]}}"};
}
