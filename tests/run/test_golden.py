#!/usr/bin/env python3
"""20 steps of each example: the digest of the checkpoint and the SHA-256 of the metrics' values are those of
tests/golden/examples.txt, whatever the compiler, its optimization level, the threads, the SIMD level and the
optimizer of graphs; the metrics of one build are equal byte for byte.
usage: test_golden.py BUILD [--update]"""
import hashlib, os, subprocess, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from harness import *

GOLDEN = os.path.join(ROOT, "tests", "golden", "examples.txt")
NAMES = ["linear", "digits", "fashion", "king-james"]
UPDATE = "--update" in sys.argv
subprocess.run(["sh", os.path.join(EXAMPLES, "king-james", "make-text.sh")], check=True)


def golden():
    with open(GOLDEN, encoding="utf-8") as f:
        return {line.split()[0]: line.split()[1:] for line in f if line.strip() and line[0] != "#"}


def values_of(stream):
    lines = [line for line in stream.splitlines() if json.loads(line)["record"] == "value"]
    return "sha256:" + hashlib.sha256("\n".join(lines).encode()).hexdigest()


def train(folder, name, label, *flags, env=None, steps=20):
    out = os.path.join(folder, label)
    result = tool(os.path.join(EXAMPLES, name, f"{name}.sexp"), "--steps", steps, "--quiet", "--checkpoint-dir", out,
                  "--metrics", "stdout", *flags, env=env)
    expect(result.returncode == 0, name, label, result.stderr[:500])
    with open(os.path.join(out, f"step-{steps}", "experiment.json"), encoding="utf-8") as f:
        return json.load(f)["digest"], steady(result.stdout)


def levels():
    probe = os.path.join(EXAMPLES, "linear", "linear.sexp")
    return [level for level in ("reference", "scalar", "avx2", "avx512")
            if tool(probe, "--steps", 1, "--quiet", env={"SEXPGPU_SIMD": level}).returncode == 0]


# What each example is run with besides the defaults; slow levels of large examples take fewer steps.
LARGE = ("fashion", "king-james")


def settings(name):
    if not QUICK or name not in LARGE:
        yield "threads-3", ["--threads", "3"], {}, 20
    if QUICK:
        return
    for n in (1, 2, 7):
        yield f"threads-{n}", ["--threads", str(n)], {}, 20
    yield "unoptimized", [], {"SEXPGPU_OPTIMIZE": "0"}, 20
    for level in levels():
        if level == "reference" and name in LARGE:
            continue  # tests/op holds the kernels of every level to the reference loops
        yield f"simd-{level}", [], {"SEXPGPU_SIMD": level}, 1 if level == "scalar" and name in LARGE else 20


def example(name):
    def check(folder):
        whole = {20: train(folder, name, "first")}
        digest, stream = whole[20]
        expect([digest, values_of(stream)] == golden().get(name), name, digest, values_of(stream), "expected",
               golden().get(name))
        for label, flags, env, steps in settings(name):
            if steps not in whole:
                whole[steps] = train(folder, name, f"first-{steps}", steps=steps)
            again = train(folder, name, label, *flags, env=env, steps=steps)
            expect(again[0] == whole[steps][0], f"{label}: {again[0]}, expected {whole[steps][0]}")
            expect(again[1] == whole[steps][1], f"{label}: the metrics differ")
    check.__name__ = "golden_" + name.replace("-", "_")
    return check


if UPDATE:
    import tempfile
    with tempfile.TemporaryDirectory() as temporary, open(GOLDEN, "w", encoding="utf-8") as to:
        to.write("# Of each example after 20 steps: the checkpoint's digest, the SHA-256 of the value records\n"
                 "# (tests/run/test_golden.py --update).\n")
        for n in NAMES:
            golden_digest, golden_stream = train(temporary, n, n)
            to.write(f"{n} {golden_digest} {values_of(golden_stream)}\n")
    sys.exit(0)
for n in NAMES:
    if os.environ.get("QUICK") != "small" or n not in LARGE:
        test(example(n))
main()
