#!/usr/bin/env python3
"""Bit probes, on simulated machines: recorded, compared by pinned runs, verified without a run. usage: test_probes.py
BUILD"""
import json, os, re, shutil, subprocess

from harness import environment, expect, schema_errors, test
from machines import *


def recorded(run):
    return run.choices["probes"]


def of_record(run):
    return os.path.join(run.out, "step-4")


@test
def a_run_records_the_probes_of_what_it_chose_and_of_products_that_the_device_decides(folder):
    machine = Machine(folder, "a")
    first, again, other = machine.run(out="1"), machine.run(out="2"), Machine(folder, "b").run()
    names = recorded(first).keys()
    for kind, member in (("convolution", "convolutions"), ("product", "products")):
        expect(first.choices[member] and all(f"{kind} {key}" in names for key in first.choices[member]), names)
    decided = [name for name in names if name.startswith("product ") and name[8:] not in first.choices["products"]]
    expect(len(decided) >= 3 and any("m: 256, n: 10, k: 72, a: n, b: n" in name for name in decided), decided)
    expect(schema_errors("choices.json", [first.choices]) == [], schema_errors("choices.json", [first.choices]))
    expect(recorded(first) == recorded(again) == recorded(other), "as measured, as remembered, on two machines")


@test
def probes_are_evidence_and_no_part_of_the_digest(folder):
    run = Machine(folder, "a").run()
    without = {name: value for name, value in run.choices.items() if name != "probes"}
    digests = []
    for name, choices in (("with", run.choices), ("without", without)):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as f:
            json.dump(choices, f)
        result = subprocess.run([CHOICES, "check", path], capture_output=True, text=True, env=environment())
        digests.append(re.search("digest sha256:[0-9a-f]+", result.stdout)[0])
    expect(digests[0] == digests[1], digests)
    printed = subprocess.run([CHECKPOINT, "choices", of_record(run)], capture_output=True, text=True, env=environment())
    expect(json.loads(printed.stdout)["probes"] == recorded(run), printed.stdout, printed.stderr)


@test
def a_pinned_run_and_a_resume_say_that_all_probes_match(folder):
    theirs = Machine(folder, "a").run()
    elsewhere = Machine(folder, "b", **slower(theirs))
    n = len(recorded(theirs))
    words = f"2: pinned to recorded choices of this kind of device, {n} of {n} probes match"
    pinned = elsewhere.run("--choices", of_record(theirs), out="pinned")
    expect(pinned.line("determinism") == words and pinned.choices == theirs.choices, pinned.line("determinism"))
    half = os.path.join(elsewhere.folder, "from", "step-2")
    shutil.copytree(os.path.join(theirs.out, "step-2"), half)
    resumed = elsewhere.run("--resume", half, out="resumed")
    expect(resumed.line("determinism") == words and resumed.same(theirs), resumed.line("determinism"))
    record = os.path.join(folder, "record.json")
    with open(record, "w", encoding="utf-8") as f:
        json.dump({name: value for name, value in theirs.choices.items() if name != "probes"}, f)
    bare_record = elsewhere.run("--choices", record, out="bare")
    expect(bare_record.line("determinism") == "2: pinned to recorded choices of this kind of device", bare_record.report)


@test
def a_deterministic_run_is_probed_too(folder):
    first = Machine(folder, "a").run("--deterministic")
    expect(recorded(first) == recorded(Machine(folder, "b").run("--deterministic")), recorded(first))
    expect("probes" not in Machine(folder, "c").run("--portable").choices, "nothing is left to a library")


@test
def another_order_under_the_same_device_is_level_3_naming_the_first_probe(folder):
    theirs = Machine(folder, "a").run()
    n, engine = len(recorded(theirs)), engines(theirs)[0]
    for name, value, kind in (("cublas.order", 5, "product Product"), ("cudnn.order", f"{engine}:5", "convolution ")):
        machine = Machine(folder, name, **{name: value})
        run = machine.run("--choices", of_record(theirs))
        said = run.line("determinism")
        match = re.fullmatch(r"3: pinned to choices of this kind of device, but only (\d+) of (\d+) probes match; the first "
                             r"that does not is (.*)", said)
        expect(match and 0 < int(match[1]) < n == int(match[2]) and match[3].startswith(kind), said)
        expect(recorded(run)[match[3]] != recorded(theirs)[match[3]] and run.choices["device"] == theirs.choices["device"])
        expect(not run.same(theirs), "the bits did move")
        differing = sum(recorded(run)[key] != digest for key, digest in recorded(theirs).items())
        expect(int(match[1]) == n - differing, said, differing)


# ---- verified without a run ---------------------------------------------------------------------------------------

@test
def verify_says_0_of_equal_probes_1_of_others_and_5_without_a_device(folder):
    machine = Machine(folder, "a")
    run = machine.run()
    n = len(recorded(run))
    good = Machine(folder, "b").call(CHOICES, "verify", of_record(run))
    expect(good.returncode == 0 and good.stdout == f"{n} of {n} probes match\n", good.stdout, good.stderr)
    changed = Machine(folder, "c", **{"cublas.order": 5}).call(CHOICES, "verify", of_record(run))
    lines = changed.stdout.splitlines()
    expect(changed.returncode == 1 and all(line.startswith("differs  product Product {") for line in lines[:-1]), lines)
    expect(lines[-1] == f"{n - len(lines) + 1} of {n} probes match" and len(lines) > 3, lines)
    other = Machine(folder, "d", card="h100").call(CHOICES, "verify", of_record(run))
    expect(other.returncode == 1 and "this device is      compute_90" in other.stdout, other.stdout, other.stderr)
    none = Machine(folder, "e", count=0).call(CHOICES, "verify", of_record(run))
    expect(none.returncode == 5 and "E-CHOICE-021" in none.stderr and "compute_80" in none.stderr, none.stderr)
    wrong = Machine(folder, "g").call(CHOICES, "verify", of_record(run), env={"SEXPGPU_PATTERNS": "2"})
    expect(wrong.returncode == 2 and "E-ENV-001: SEXPGPU_PATTERNS: found \"2\"" in wrong.stderr, wrong.stderr)
    silent = Machine(folder, "f").call(CHOICES, "verify", of_record(machine.run("--portable", out="portable")))
    expect(silent.returncode == 1 and silent.stdout.startswith("the record has no probes\n"), silent.stdout, silent.stderr)


@test
def verify_reads_what_was_measured_and_prints_json(folder):
    machine = Machine(folder, "a")
    run = machine.run()
    export = machine.call(CHOICES, "export", "--measurements").stdout
    with open(os.path.join(folder, "export.jsonl"), "w", encoding="utf-8") as f:
        f.write(export)
    for record in ("export.jsonl", os.path.join("a", "cache", "sexpgpu", "choices.db")):
        result = Machine(folder, "of-" + os.path.basename(record)).call(CHOICES, "verify", os.path.join(folder, record))
        expect(result.returncode == 0 and result.stdout.endswith("probes match\n"), result.stdout, result.stderr)
    broken = json.loads(json.dumps(run.choices))
    name = next(name for name in broken["probes"] if name[12:] in broken["convolutions"])
    broken["convolutions"][name[12:]] = "engine 999"
    broken["probes"]["gather unknown"] = "0" * 16
    path = os.path.join(folder, "broken.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(broken, f)
    result = machine.call(CHOICES, "verify", path, "--json")
    told = json.loads(result.stdout)
    expect(schema_errors("choices-verify.json", [told]) == [], schema_errors("choices-verify.json", [told]))
    expect(result.returncode == 1 and told["n_match"] == told["n_probes"] - 2, result.stdout, result.stderr)
    expect([p["key"] for p in told["probes"] if p["here"] is None] == [name[12:], "unknown"], result.stdout)
    expect(all(("cannot be probed" in p["why"]) if p["here"] is None else p["match"] for p in told["probes"]))


@test
def check_with_a_file_says_whether_a_run_takes_the_record(folder):
    machine = Machine(folder, "a")
    run = machine.run()
    n = len(recorded(run))
    taken = machine.call(CHOICES, "check", of_record(run), "--file", machine.experiment)
    words = f"2: pinned to recorded choices of this kind of device, {n} of {n} probes match"
    expect(taken.returncode == 0 and taken.stdout == f"ok  every choice can be taken\n    determinism {words}\n",
           taken.stdout, taken.stderr)
    told = machine.call(CHOICES, "check", of_record(run), "--file", machine.experiment, "--json", "--set", "steps=7")
    expect(json.loads(told.stdout) == {"refused": [], "level": 2, "determinism": words}, told.stdout, told.stderr)
    lacking = Machine(folder, "b", **{"cudnn.missing": ",".join(engines(run))})
    refused = lacking.call(CHOICES, "check", of_record(run), "--file", lacking.experiment, "--json")
    told = json.loads(refused.stdout)
    expect(schema_errors("choices-refusal.json", [told]) == [], schema_errors("choices-refusal.json", [told]))
    expect(refused.returncode == 3 and "E-CHOICE-001" in refused.stderr, refused.stderr)
    expect({entry["key"] for entry in told["refused"]} <= run.choices["convolutions"].keys() and told["refused"], told)
    wrong = machine.call(CHOICES, "check", of_record(run), "--file", os.path.join(folder, "none.sexp"))
    expect(wrong.returncode == 2 and "E-READ-008" in wrong.stderr and not wrong.stdout, wrong.returncode, wrong.stderr)
    none = Machine(folder, "c", count=0).call(CHOICES, "check", of_record(run), "--file", machine.experiment)
    expect(none.returncode == 5 and "E-DEVICE-021" in none.stderr, none.stderr)


main_simulated()
