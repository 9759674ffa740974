#!/usr/bin/env python3
"""tests/gpu/check.sh, which stands ready for a machine with a card, in its short form on the simulated one: its report, and
what it does where something fails, hangs or is not there. usage: test_gpu_check.py BUILD"""
import os, re, subprocess

from harness import BUILD, QUICK, ROOT, environment, expect, main, test

SIMULATOR, CHECK = os.path.join(ROOT, "tests", "cudasim", "run"), os.path.join(ROOT, "tests", "gpu", "check.sh")


class Report:
    def __init__(self, folder, *arguments, settings=(), simulator=True, status=0):
        path = os.path.join(folder, "report.md")
        command = [SIMULATOR, "--build", BUILD, "--card", "h200", *settings, "--"] if simulator else []
        self.result = subprocess.run([*command, "sh", CHECK, "--build", BUILD, "--report", path, "--short", "--no-make",
                                      *arguments], capture_output=True, text=True, timeout=900, env=environment())
        expect(self.result.returncode == status, f"exit {self.result.returncode}:", self.result.stdout[-1500:],
               self.result.stderr[-1500:])
        with open(path, encoding="utf-8") as f:
            self.text = f.read()
        self.summary = dict(re.findall(r"^\| (\w+) \| (.*) \| \d+ \|$", self.text.split("\n## ")[0], re.M))

    def section(self, title):
        parts = [part for part in self.text.split("\n## ") if part.startswith(title + "\n")]
        expect(len(parts) == 1, f"{len(parts)} sections {title}")
        return parts[0]


@test
def one_report_holds_facts_operations_levels_and_benchmarks(folder):
    parts = ["facts", "operations"] if QUICK else []
    report = Report(folder, *(word for part in parts for word in ("--only", part)))
    expect(report.text.startswith("# NVIDIA H200 (simulated), 20") and "figures are none of a card" in report.text,
           report.text[:300])
    facts = report.section("What the card says of itself")
    expect("- GPU: NVIDIA H200 (simulated)" in facts and "compute_90 with 132 multiprocessors" in facts, facts[:400])
    rows = re.findall(r"^\| (\w+) \| (.+) \| (.+) \| (.+) \|$", facts.split("tests/cuda/h200.json")[1].split("cuDNN's JSON")[0],
                      re.M)
    expect(len(rows) == 23 and all(a == b == c for _, a, b, c in rows), len(rows), rows)
    operations = report.section("Operations against the CPU")
    expect("FAILED" not in operations and ", 0 failed, 0 not reached" in report.summary["operations"], operations)
    for name in ("add", "sum", "argsort", "normal", "scatter-add", "random graph 2", "a recorded sequence"):
        expect(re.search(rf"^\| {name} \| .+ \| passed \|$", operations, re.M), name, operations[-3000:])
    for name in ("long product f32", "Weight bf16"):
        expect(re.search(rf"^\| {name} \| 1 candidate, .* of the bound \| passed \|$", operations, re.M), name)
    if QUICK:
        return
    levels = report.section("What runs rely on")
    expect(levels.count("| passed |") == 8 and "determinism 1: this machine repeats" in levels, levels)
    for title in ("Memory", "Products", "Launches", "Convolutions", "Products, portable"):
        expect(f"### {title} (simulated: no figures)" in report.text, title)
    expect("FAILED" not in report.text, report.text[-4000:])
    expect(re.search(r"^\| mlp \| [\d.]+ \| [\d.]+ ", report.section("Whole training steps"), re.M))


@test
def what_fails_is_said_with_its_reason_and_the_rest_goes_on(folder):
    engines = "serial,blocks32,lanes4,lanes2,halves,split_blocks,split_lanes,split_tree"
    report = Report(folder, "--only", "operations", "--only", "facts", status=1,
                    settings=["--set", f"cublas.nondeterministic={engines}"])
    operations = report.section("Operations against the CPU")
    expect(re.search(r"^\| product f32 n n \| .* \| FAILED: .*two executions differ \|$", operations, re.M), operations)
    expect("| normal | 1 | passed |" in operations and "| Weight bf16 |" in operations, operations)
    expect(report.summary["operations"].startswith("FAILED: ") and report.summary["facts"] == "done", report.summary)


@test
def a_launch_that_fails_ends_neither_the_suite_nor_what_comes_after(folder):
    report = Report(folder, "--only", "operations", status=1, settings=["--set", "memory.fail_launch=5"])
    operations = report.section("Operations against the CPU")
    expect(operations.count("FAILED") >= 1 and "CUDA_ERROR_OUT_OF_MEMORY" in operations, operations)
    expect("| Weight bf16 | 1 candidate" in operations and ", 0 not reached" in report.summary["operations"], operations)


@test
def a_device_that_fails_for_good_is_opened_again_for_the_next_piece(folder):
    report = Report(folder, "--only", "operations", status=1, settings=["--set", "cublas.fail=13@2"])
    operations = report.section("Operations against the CPU")
    expect(re.search(r"^\| product f32 n n \| .* FAILED: .*E-DEVICE-028: cublasGemmEx fails with 13", operations, re.M), operations)
    expect(", 0 not reached" in report.summary["operations"] and re.search(r"^\| Weight bf16 .* passed", operations, re.M))


@test
def a_budget_that_is_used_up_leaves_the_rest_with_a_word(folder):
    report = Report(folder, "--seconds", "3")
    expect(report.summary and set(report.summary.values()) == {"not reached: 3 s were used up"}, report.summary)


@test
def a_machine_without_a_card_has_a_report_too(folder):
    report = Report(folder, "--only", "machine", "--only", "facts", "--only", "operations", "--only", "levels", status=77,
                    settings=["--set", "count=0"])
    expect(report.summary["machine"] == "done" and "- missing:" in report.text, report.text)
    for name in ("facts", "operations", "levels"):
        expect("E-DEVICE-021" in report.summary[name], report.summary)
    expect("A card that is not known" in report.text, report.text[:100])


if subprocess.run([SIMULATOR, "--build", BUILD, "--", "true"], capture_output=True).returncode == 77:
    print("skipped: there is no simulated CUDA in this build\n0 passed, 0 failed")
else:
    main()
