#!/usr/bin/env python3
"""tests/cudasim/run: what it gives the command, and how it says that there is nothing to simulate with."""
import subprocess, sys, os

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *

SIMULATE = os.path.join(ROOT, "tests", "cudasim", "run")
LIBRARIES = os.path.join(BUILD, "test", "cudasim")


def simulate(*arguments, env=None, build=BUILD):
    return subprocess.run([SIMULATE, "--build", build, *arguments], capture_output=True, text=True, timeout=120,
                          env=environment(env))


@test
def gives_settings_and_libraries(folder):
    result = simulate("--card", "h100", "--gpus", "2", "--set", "device.name=A Card", "--set", "order=lazy", "sh", "-c",
                      'echo "$CUDASIM_SETTINGS"; echo "$LD_LIBRARY_PATH"; exit 5', env={"LD_LIBRARY_PATH": "/some/where"})
    lines = result.stdout.splitlines()
    expect(result.returncode == 5, result.returncode, result.stderr)
    expect(lines[0] == f"card={ROOT}/tests/cuda/h100.json", lines)
    expect(lines[1:4] == ["count=2", "device.name=A Card", "order=lazy"], lines)
    expect(lines[4] == f"{LIBRARIES}:/some/where", lines)


@test
def refuses_wrong_words(folder):
    for words in ([], ["--set", "order", "true"], ["--card"], ["--what", "true"], ["--card", "v100", "true"]):
        result = simulate(*words)
        expect(result.returncode == 2 and result.stderr, words, result.returncode)


@test
def says_what_is_missing(folder):
    result = simulate("true", build=folder)
    expect(result.returncode == 77 and result.stdout.count("\n") == 1 and result.stdout.startswith("skipped: "), result.stdout)


@test
def the_tools_find_the_stand_ins(folder):
    result = simulate(os.path.join(BUILD, "bin", "sexpgpu-doctor"), env={"HOME": folder})
    text = result.stdout + result.stderr
    expect("cudasim:" not in text and result.returncode in (0, 1), text)
    expect(f"{LIBRARIES}/libcuda.so.1" in text and f"{LIBRARIES}/libnvrtc.so.13" in text, text)
    result = simulate("--set", "driver.version=11040", os.path.join(BUILD, "bin", "sexpgpu-doctor"), env={"HOME": folder})
    expect("11040" in result.stdout, result.stdout)


if not os.path.exists(os.path.join(LIBRARIES, "libcuda.so.1")):
    print("skipped: this build has no simulated CUDA (make says why)\n0 passed, 0 failed")
elif simulate("true").returncode == 77:
    print("skipped: the toolkit's libnvrtc.so.13 is not found\n0 passed, 0 failed")
else:
    main()
