#!/usr/bin/env python3
"""Where the time of whole training steps goes, task by task.

    bench_tasks.py BUILD [THREADS [WORKLOAD ...]]     by default 1 thread and mlp cnn char gpt

Tasks of one description are one line: how many a step has, the microseconds of one (best, and median in brackets), what all
of them take of the sum of all tasks, and GFLOP/s of products or GB/s of what others read and write, each element once, by
the best. First, the sum of all bests and medians beside the median step. account_tasks.c takes these; accounts.py says how
it is built where it is not, or is older than the library.
"""
import sys, tempfile

from accounts import account
from workloads import write_experiment

STEPS, LINES = {"mlp": 67, "cnn": 14, "char": 16, "gpt": 9}, 24


def main():
    build, threads = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
    for name in sys.argv[3:] or list(STEPS):
        with tempfile.TemporaryDirectory(prefix="bench-tasks-") as folder:
            write_experiment(name, folder)
            step = account(build, "account_tasks", folder, threads, STEPS[name])
        lines = {}
        for task in step["tasks"]:
            lines.setdefault((task["kind"], task["label"], task["flops"], task["bytes"]), []).append(task)
        sums = {key: sum(task["best"] for task in tasks) for key, tasks in lines.items()}
        total, medians = sum(sums.values()), sum(task["median"] for task in step["tasks"])
        print(f"{name}, {threads} thread{'s' if threads > 1 else ''}: tasks {total / 1e3:.2f} [{medians / 1e3:.2f}] ms, "
              f"median step {step['ms']:.2f} ms")
        for key in sorted(sums, key=sums.get, reverse=True)[:LINES]:
            kind, label, flops, moved = key
            n, one = len(lines[key]), sums[key] / len(lines[key])
            middle = sum(task["median"] for task in lines[key]) / n
            rate = f"{flops / one / 1e3:6.1f} GFLOP/s" if flops else f"{moved / one / 1e3:6.1f} GB/s"
            print(f"  {n:3} x {one:9.1f} [{middle:9.1f}] us {sums[key] / total:6.1%} {rate:14}  {kind:9} {label}")
        print(flush=True)


main()
