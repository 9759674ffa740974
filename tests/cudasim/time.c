/* Simulated time: what an operation costs. A figure of the card over the work, never the host's clock, so that every
 * measurement repeats. */
#include <stdio.h>
#include <string.h>

#include "driver.h"

static _Thread_local double host_ns;

double sim_host_now(void) { return host_ns; }
void sim_host_spend(double ns) { host_ns += ns; }
void sim_host_reach(double ns) {
  if (ns > host_ns) host_ns = ns;
}

/* HBM2 and HBM3 of 5 stacks of 1024 bits, of 6 where the memory is larger than 100 GB; two bits a clock and line. */
double sim_card_bytes_a_second(void) {
  double bits = sim_card_fact("totalGlobalMem") > 100000000000 ? 6144 : 5120;
  return (double)sim_card_fact("memClockRateKHz") * 1000 * 2 * bits / 8;
}

double sim_bus_bytes_a_second(void) { return sim_card_fact("deviceVer") >= 900 ? 50e9 : 25e9; }

/* Multiplications and additions a multiprocessor and clock: lanes times two, tensor cores as the data sheets have it.
 */
static double flops_a_second(sim_rate rate) {
  bool later = sim_card_fact("deviceVer") >= 900;
  static const double clocks[2][4] = {
      [0] = {[SIM_RATE_F32] = 128, [SIM_RATE_F64] = 64, [SIM_RATE_BF16] = 2048, [SIM_RATE_TF32] = 1024},
      [1] = {[SIM_RATE_F32] = 256, [SIM_RATE_F64] = 128, [SIM_RATE_BF16] = 4096, [SIM_RATE_TF32] = 2048}};
  return clocks[later][rate] * (double)sim_card_fact("multiProcessorCount") * (double)sim_card_fact("smClockRateKHz") *
         1000;
}

static double speed_of(const char *name) {
  char setting[256];
  snprintf(setting, sizeof setting, "speed.%s", name);
  double speed = sim_setting_number(setting, 1);
  return speed > 0 ? speed : 1;
}

static uint64_t mix(uint64_t x, uint64_t y) {
  x ^= y + 0x9E3779B97F4A7C15u + (x << 6) + (x >> 2);
  x = (x ^ x >> 33) * 0xFF51AFD7ED558CCDu;
  return x ^ x >> 33;
}

/* noise=SEED:PERCENT: the same for the same operation of the same stream in every run. */
static double noise_of(const sim_op *op) {
  const char *setting = sim_setting("noise");
  unsigned long long seed = 0;
  double percent = 0;
  if (!setting) return 1;
  if (sscanf(setting, "%llu:%lf", &seed, &percent) != 2) {
    sim_violation("setting noise=%s: SEED:PERCENT was expected", setting);
    return 1;
  }
  uint64_t x = mix(seed, op->stream->object.number);
  x = mix(x, op->stream->n_done);
  for (const char *at = op->work->speed; *at; at++) x = mix(x, (unsigned char)*at);
  return 1 + percent / 100 * ((double)(x >> 11) * 0x1p-52 - 1);
}

/* A multiprocessor issues one instruction of each of four warps a clock, and works on whole blocks. */
static double issue_s(const sim_op *op) {
  double processors = (double)sim_card_fact("multiProcessorCount"),
         clock = (double)sim_card_fact("smClockRateKHz") * 1000;
  double busy = op->work->n_blocks < processors ? op->work->n_blocks : processors;
  return op->n_instructions ? (double)op->n_instructions / (busy * 4 * clock) : 0;
}

double sim_cost_ns(const sim_op *op) {
  const sim_work *work = op->work;
  double n_bytes = 0;
  for (size_t i = 0; i < work->n_ranges; i++) n_bytes += (double)work->ranges[i].n_bytes;
  double moved = n_bytes / work->n_bytes_a_second, computed = work->n_flops / flops_a_second(work->rate) + issue_s(op);
  double ns = (moved > computed ? moved : computed) * 1e9 + op->latency_ns;
  return ns / speed_of(work->speed) * noise_of(op);
}
