#!/usr/bin/env python3
"""Whole training steps on the CUDA device beside the CPU engine: the workloads of bench_steps.

    bench_device_steps.py BUILD [--seconds N] [--short] [WORKLOAD ...]     by default all of mlp cnn char gpt

A Markdown table: milliseconds a step (median behind the warm-up) on the CPU with all threads and on the device; seconds
from the start of the process to the first loss with an empty cache, which compiles kernels and measures choices, and
with what that left; the stacking, the losses after the same steps. On a simulated device times are none of a card's:
the table is marked, and --short takes the smallest workload for two steps. Ends with 0 where there is no device."""
import json, os, statistics, subprocess, sys, tempfile, time

from workloads import NAMES, write_experiment

STEPS = {"mlp": (60, 400), "cnn": (4, 100), "char": (6, 120), "gpt": (4, 60)}  # on the CPU, on the device
SIMULATED = "CUDASIM_SETTINGS" in os.environ


class Failed(Exception):
    pass


def train(build, folder, device, steps, seconds):
    """Times of arrival since the start, the losses, what the run said."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SEXPGPU_")}
    environment["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
    command = [os.path.join(build, "bin", "sexpgpu-run"), os.path.join(folder, "exp.sexp"), "--metrics", "stdout",
               "--device", device, "--set", f"steps={steps}"]
    begin, times, losses = time.perf_counter(), [], []
    with open(os.path.join(folder, "said"), "w+", encoding="utf-8") as said:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, env=environment)
        for line in process.stdout:
            now, record = time.perf_counter() - begin, json.loads(line)
            if record.get("name") == "train/loss":
                times.append(now)
                losses.append(record["value"])
            if now > seconds:
                process.kill()
        process.wait()
        said.seek(0)
        report = said.read()
    if process.returncode and not (times and times[-1] > seconds):
        words = [line for line in report.splitlines() if line.strip()]
        raise Failed(f"exit {process.returncode}: " + " ".join(words[-3:]).replace("|", "/")[:400])
    return times, losses, report


def milliseconds(times):
    steps = [b - a for a, b in zip(times, times[1:])]
    return statistics.median(steps[len(steps) // 4:]) * 1e3 if steps else float("nan")


def stacking(report):
    lines = [line for line in report.splitlines() if line.startswith("stacking")]
    return lines[0].split(None, 1)[1].replace("|", "/")[:60] if lines else ""


def row(build, name, short, ends):
    cpu_steps, device_steps = (2, 4) if short else STEPS[name]
    with tempfile.TemporaryDirectory(prefix="bench-device-") as folder:
        write_experiment(name, folder)
        left = ends - time.monotonic()
        cold, _, _ = train(build, folder, "cuda", 2, left)
        times, losses, report = train(build, folder, "cuda", device_steps, ends - time.monotonic())
        here, cpu_losses, _ = train(build, folder, "cpu", cpu_steps, ends - time.monotonic())
    if not cold or not times or not here:
        raise Failed("the time was up")
    same = min(len(losses), len(cpu_losses)) - 1
    a, b = milliseconds(here), milliseconds(times)
    return (f"| {name} | {a:.2f} | {b:.3f} | {a / b:.1f} | {cold[0]:.2f} | {times[0]:.2f} | {stacking(report)} | "
            f"{cpu_losses[same]:.6f} / {losses[same]:.6f} at {same + 1} |")


def main():
    arguments = sys.argv[2:]
    short = "--short" in arguments
    seconds = float(arguments[arguments.index("--seconds") + 1]) if "--seconds" in arguments else 1e6
    names = [a for a in arguments if a in NAMES] or (["mlp"] if short else list(NAMES))
    ends, failed = time.monotonic() + seconds, 0
    facts = subprocess.run([os.path.join(sys.argv[1], "test", "gpu", "check_facts"), "--name"], capture_output=True, text=True)
    if facts.returncode:
        print(f"skipped: {facts.stdout.strip()}")
        return 0
    print(f"{facts.stdout.splitlines()[-1]}{' (simulated: no figures)' if SIMULATED else ''}\n")
    print("| workload | CPU ms a step | CUDA ms a step | times as fast | first loss, s, cold | warm | stacking | loss CPU / CUDA |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name in names:
        if time.monotonic() > ends - 5:
            print(f"| {name} | not reached |")
            continue
        try:
            print(row(sys.argv[1], name, short, ends), flush=True)
        except Failed as why:
            failed += 1
            print(f"| {name} | FAILED: {why} |", flush=True)
    return failed > 0


sys.exit(main())
