#!/usr/bin/env python3
"""How whole training steps scale with threads, and where the time goes that does not.

    bench_threads.py BUILD [ROUNDS [WORKLOAD ...]]     by default 3 rounds of mlp cnn char gpt

One thread and all of them in turn; milliseconds a step are medians of the best round. Of the steps on all threads:
launches (work cut into parts), the share of the step in which only the caller computes (tasks too small to be cut, and
what is in no task), until when the last thread began, and how long the caller waited for the others at the end.
account_threads.c takes these (accounts.py says how it is built where it is not, or is older than the library); the
launches' own cost is printed by bench_threads.
"""
import os, sys, tempfile

from accounts import account
from workloads import write_experiment

STEPS = {"mlp": 120, "cnn": 12, "char": 14, "gpt": 7}


def main():
    build, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    n_threads = len(os.sched_getaffinity(0))
    print(f"{'':5} {'1 thread':>9} {f'{n_threads} threads':>10} {'times':>6} {'launches':>9} {'caller alone':>13} "
          f"{'began after':>12} {'waited':>7}")
    for name in sys.argv[3:] or list(STEPS):
        with tempfile.TemporaryDirectory(prefix="bench-threads-") as folder:
            write_experiment(name, folder)
            runs = [[account(build, "account_threads", folder, n, STEPS[name]) for n in (1, n_threads)]
                    for _ in range(rounds)]
        one, many = (min((run[k] for run in runs), key=lambda found: found["ms"]) for k in (0, 1))
        step = many["parallel"] + many["small"] + many["outside"]
        print(f"{name:5} {one['ms']:9.2f} {many['ms']:10.2f} {one['ms'] / many['ms']:6.2f} {many['launches']:9.0f} "
              f"{(many['small'] + many['outside']) / step:13.1%} {many['wake'] / step:12.1%} {many['wait'] / step:7.1%}",
              flush=True)


main()
