#!/usr/bin/env python3
"""What a checkpoint that is written beside the training costs: a run that writes one every N steps against the same run
that writes none, steps timed by the arrival of their records; in turn, medians of rounds.

    bench_background.py BUILD [ROUNDS [ROWS]]    by default 5 rounds, 2048 rows: 96 MiB of parameters and state
"""
import json, os, shutil, statistics, subprocess, sys, tempfile, time

BUILD = sys.argv[1]
ROUNDS, ROWS = int(sys.argv[2]) if len(sys.argv) > 2 else 5, int(sys.argv[3]) if len(sys.argv) > 3 else 2048
STEPS, EVERY = 60, 20
MODEL = f"""(defrun r :seed 1 :steps {STEPS} :checkpoint-every {EVERY} :checkpoint-keep 1
  :loss (let ((w (param "w" [{ROWS} 4096] :init (glorot shape)))) (mean (* w w)))
  :optimizer (adam :lr 0.001))
"""


def run(path, place, threads):
    """Seconds between the losses, and the timings that the run recorded."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SEXPGPU_")}
    command = [os.path.join(BUILD, "bin", "sexpgpu-run"), path, "--quiet", "--metrics", "stdout", "--threads", str(threads)]
    process = subprocess.Popen(command + (["--checkpoint-dir", place] if place else []), stdout=subprocess.PIPE, env=clean)
    times, timings = [], {}
    for line in process.stdout:
        now, record = time.perf_counter(), json.loads(line)
        if record.get("name") == "train/loss":
            times.append(now)
        if record["record"] == "timing" and "value" in record:
            timings.setdefault(record["name"], []).append(record["value"])
    if process.wait() or len(times) != STEPS:
        sys.exit("the run failed")
    if place:
        shutil.rmtree(place)
    return [b - a for a, b in zip(times, times[1:])], timings


def main():
    processors = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="bench-background-") as folder:
        path = os.path.join(folder, "exp.sexp")
        with open(path, "w", encoding="utf-8") as f:
            f.write(MODEL)
        print(f"{ROWS * 4096 * 12 / (1 << 20):.0f} MiB of parameters and state, {STEPS} steps, a checkpoint every {EVERY}")
        for threads in sorted({1, processors}):
            plain, beside, longest, copies, writes, waits = [], [], [], [], [], 0
            for _ in range(ROUNDS):
                steps, _ = run(path, None, threads)
                plain.append(statistics.mean(steps))
                usual = statistics.median(steps)
                steps, timings = run(path, os.path.join(folder, "out"), threads)
                beside.append(statistics.mean(steps))
                longest.append(max(steps[i] for i in range(EVERY - 1, STEPS - 1, EVERY)) - usual)
                copies += timings["perf/checkpoint_copy"]
                writes += timings["perf/checkpoint_write"][:-1]
                waits += len(timings.get("perf/checkpoint_wait", []))
            a, b, copy = statistics.median(plain), statistics.median(beside), statistics.median(copies)
            print(f"threads {threads} of {processors}: a step {1e3 * a:.2f} ms, with checkpoints {1e3 * b:.2f} ms, "
                  f"{b / a:.3f} times; a write {1e3 * statistics.median(writes):.0f} ms; a copy {1e3 * copy:.1f} ms; "
                  f"the step after a copy at most {1e3 * statistics.median(longest):.1f} ms longer, "
                  f"{statistics.median(longest) / copy:.2f} copies; {waits} waits")


main()
