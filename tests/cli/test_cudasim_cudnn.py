#!/usr/bin/env python3
"""The product's suites of cuDNN's selection say on the simulated card what they say on the real library alone."""
import subprocess, sys, os

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *

SIMULATE = os.path.join(ROOT, "tests", "cudasim", "run")
SUITES = [os.path.join(BUILD, "test", "unit", name) for name in ("test_cudnn_pin", "test_cudnn_choices")]


def lines_of(result):
    """Without the path that cuDNN was found at."""
    expect(result.returncode == 0, result.returncode, (result.stdout + result.stderr)[-2000:])
    expect("cudasim:" not in result.stderr, result.stderr)
    return [line.split(" at ")[0] for line in result.stdout.splitlines()]


@test
def selection_is_that_of_the_real_library(folder):
    for suite in SUITES:
        real = subprocess.run([suite], capture_output=True, text=True, timeout=300, env=environment(), cwd=ROOT)
        simulated = subprocess.run([SIMULATE, "--build", BUILD, suite], capture_output=True, text=True, timeout=300,
                                   env=environment(), cwd=ROOT)
        expect(os.path.join(BUILD, "test", "cudasim", "libcudnn.so.9") in simulated.stdout, simulated.stdout[:500])
        expect(lines_of(real) == lines_of(simulated), "\n".join(lines_of(real)), "\n".join(lines_of(simulated)))


def missing():
    if not os.path.exists(os.path.join(BUILD, "test", "cudasim", "libcudnn.so.9")):
        return "this build has no simulated CUDA (make says why)"
    if subprocess.run([SIMULATE, "--build", BUILD, "true"], capture_output=True).returncode == 77:
        return "the toolkit's libnvrtc.so.13 is not found"
    first = subprocess.run([SUITES[1]], capture_output=True, text=True, env=environment(), cwd=ROOT).stdout
    return first.splitlines()[0][len("skipped: "):] if first.startswith("skipped: ") else None


reason = "it is to be quick" if QUICK else missing()
if reason:
    print(f"skipped: {reason}\n0 passed, 0 failed")
else:
    main()
