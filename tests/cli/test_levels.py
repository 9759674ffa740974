#!/usr/bin/env python3
"""What a run on CUDA may rely on about its bits, on simulated machines: the table of flags row by row, the ways in which
level 1 is lost one by one, the three levels, and refusals. usage: test_levels.py BUILD"""
import json, os, shutil

from harness import expect, steady, test
from machines import *


def differ(a, b):
    return {kind: (a.choices[kind], b.choices[kind]) for kind in ("stacking", "convolutions", "products")
            if a.choices[kind] != b.choices[kind]}


# ---- the table of flags, row by row -------------------------------------------------------------------------------

@test
def the_fastest_run_measures_remembers_and_repeats_its_bits(folder):
    machine = Machine(folder, "a")
    first, again = machine.run(out="first"), machine.run(out="again")
    expect(first.level() == 1 and again.level() == 1)
    expect(first.line("determinism") == "1: this machine repeats these bits with this binary and ~/.cache/sexpgpu; another "
           "is 3, or 2 pinned to these choices with --choices", first.line("determinism"))
    expect(first.same(again) and first.choices == again.choices)
    expect(first.choices.get("node_gradients", "left out") is None, "what has no decision is recorded too")
    expect("0 remembered" in first.line("store") and "0 measured" in again.line("store"), first.line("store"),
           again.line("store"))


@test
def two_processes_that_measure_at_once_have_one_choice_and_the_same_bits(folder):
    import concurrent.futures
    machine = Machine(folder, "a")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(machine.run, out=f"out-{i}", more={"noise": f"{i + 1}:40"}) for i in range(2)]
        first, second = (job.result() for job in jobs)
    third = machine.run(out="third")
    expect(first.choices == second.choices == third.choices, differ(first, third), differ(second, third))
    expect(first.same(second) and first.same(third))


@test
def a_spot_job_resumes_on_another_card_with_fresh_choices(folder):
    machine, other = Machine(folder, "a"), Machine(folder, "b", card="h100")
    before = machine.run("--steps", 2)
    shutil.copytree(os.path.join(before.out, "step-2"), os.path.join(other.folder, "from", "step-2"))
    after = other.run("--resume", os.path.join(other.folder, "from", "step-2"), env={"SEXPGPU_CHOICES": "fresh"})
    expect(after.level() == 3, after.line("determinism"))
    expect("chosen again on this machine; the steps before it were computed with choices of compute_80" in
           after.line("determinism"), after.line("determinism"))


@test
def a_resume_keeps_the_bits_of_the_run_it_continues(folder):
    machine = Machine(folder, "a")
    whole = machine.run(out="whole")
    elsewhere = Machine(folder, "b", **slower(whole))
    half = os.path.join(elsewhere.folder, "from", "step-2")
    shutil.copytree(os.path.join(whole.out, "step-2"), half)
    after = elsewhere.run("--resume", half)
    expect(after.level() == 2 and after.same(whole), after.line("determinism"))
    expect(after.line("determinism").startswith("2: pinned to recorded choices of this kind of device"))
    lacking = Machine(folder, "c", **{"cudnn.missing": ",".join(engines(whole))})
    said = lacking.refused("--resume", half)
    expect(all(key in said for key in whole.choices["convolutions"]), said)


@test
def a_colleagues_record_gives_the_colleagues_bits(folder):
    machine = Machine(folder, "a")
    theirs = machine.run()
    elsewhere = Machine(folder, "b", **slower(theirs))
    mine = elsewhere.run(out="mine")
    expect(differ(mine, theirs) and not mine.same(theirs), "another choice moves the bits")
    for i, record in enumerate(("step-4", "step-4/experiment.json")):
        pinned = elsewhere.run("--choices", os.path.join(theirs.out, record), out=f"pinned-{i}")
        expect(pinned.level() == 2 and pinned.same(theirs) and pinned.choices == theirs.choices, pinned.line("determinism"))
    export = machine.call(CHOICES, "export")
    expect(export.returncode == 0 and export.stdout.count("\n") > 3, export.stderr)
    with open(os.path.join(folder, "export.jsonl"), "w", encoding="utf-8") as f:
        f.write(export.stdout)
    pinned = elsewhere.run("--choices", os.path.join(folder, "export.jsonl"), out="exported")
    expect(pinned.level() == 2 and pinned.same(theirs), pinned.line("determinism"))


@test
def deterministic_runs_measure_nothing_and_agree_without_a_record(folder):
    machine = Machine(folder, "a")
    first = machine.run("--deterministic")
    other = Machine(folder, "b", **slower(first)).run("--deterministic")
    expect(first.level() == 2 and first.same(other) and first.choices == other.choices)
    expect(first.choices["stacking"] == 1 and first.choices["strict"] is True and first.choices["recompute"] == 9)
    expect(set(first.choices["products"].values()) == {"ordinary"}, first.choices["products"])
    expect(not os.path.exists(os.path.join(machine.folder, "cache", "sexpgpu", "choices.db")), "it opened a store")


@test
def a_stated_budget_is_taken_from_its_record_too(folder):
    machine = Machine(folder, "a")

    def state(budget):
        with open(machine.experiment, "w", encoding="utf-8") as f:
            f.write(EXPERIMENT.replace(":seed 5", f":seed 5 :recompute {budget}"))

    state(5.25)
    first = machine.run()
    expect(first.choices["recompute"] == 5.25 and "recompute 5.25 flops" in first.line("choices"), first.choices)
    again = machine.run("--resume", "latest", "--steps", 6)
    expect(again.level() == 2 and again.choices == first.choices, again.line("determinism"))
    record = os.path.join(first.out, "step-2")
    state(7)
    expect("recompute" in machine.refused("--choices", record, out="other"))
    expect(machine.run("--choices", record, "--choices", "fresh:recompute", out="fresh").choices["recompute"] == 7)


# ---- how level 1 is lost, one by one -----------------------------------------------------------------------------

@test
def level_1_is_lost_with_the_store(folder):
    machine = Machine(folder, "a")
    first = machine.run(out="first")
    os.remove(os.path.join(machine.folder, "cache", "sexpgpu", "choices.db"))
    again = machine.run(out="again", more=slower(first))
    expect(differ(first, again) and not first.same(again))
    kept = machine.run(out="kept")
    expect(kept.same(again), "what was measured last is remembered")


@test
def level_1_is_said_to_be_lost_without_a_place_for_the_store(folder):
    machine = Machine(folder, "a")
    for env in ({"XDG_CACHE_HOME": None, "HOME": None}, {"XDG_CACHE_HOME": "/proc/nowhere"}):
        run = machine.run(out=f"out-{len(env)}", env=env)
        expect(run.level() == 3 and "level 1 against later runs is lost" in run.line("determinism"), run.report)


@test
def level_1_is_lost_where_another_process_holds_the_memory(folder):
    machine = Machine(folder, "a")
    first = machine.run(out="first")
    crowded = machine.run(out="crowded", env={"SEXPGPU_MEMORY": "0.255"})  # 1 fits, 2 does not
    expect(first.choices["stacking"] > crowded.choices["stacking"], first.choices["stacking"], crowded.choices["stacking"])
    expect(not first.same(crowded), "another stacking moves the bits")


@test
def level_1_is_lost_when_an_allocation_fails(folder):
    machine = Machine(folder, "a")
    whole = machine.run(out="whole")
    expect(whole.choices["stacking"] > 1, whole.choices["stacking"])
    hurt = machine.run(out="hurt", more={"memory.fail_graph": "4"})  # the gradients of step 4
    lines = [line for line in hurt.report.splitlines() if line.startswith("memory: allocation failed")]
    expect(len(lines) == 1 and "unstacked from step" in lines[0], hurt.report)
    expect(whole.digests["step-2"] == hurt.digests["step-2"] and whole.digests["step-4"] != hurt.digests["step-4"])
    half = machine.start(out="half", more={"memory.fail_graph": "5"})  # its update, which may be done in part
    expect(half.returncode == 5 and "E-DEVICE-026" in half.stderr, half.returncode, half.stderr[-1000:])
    stopped = machine.start("--choices", os.path.join(whole.out, "step-4"), out="stopped", more={"memory.fail_graph": "4"})
    expect(stopped.returncode == 5 and "E-DEVICE-" in stopped.stderr and "memory: allocation failed" not in stopped.stderr,
           stopped.returncode, stopped.stderr[-1000:])


# ---- levels 2 and 3, and refusals ---------------------------------------------------------------------------------

@test
def one_fact_of_the_device_changed_is_level_3_naming_both(folder):
    theirs = Machine(folder, "a").run()
    record = os.path.join(theirs.out, "step-4")
    changes = {"device.multiprocessors": 56, "cublas.version": 130202, "nvrtc.version": "13.1"}
    for i, (name, value) in enumerate(changes.items()):
        run = Machine(folder, f"b{i}", **{name: value}).run("--choices", record)
        said = run.line("determinism")
        expect(run.level() == 3 and theirs.choices["device"] in said and run.choices["device"] in said, said)
    run = Machine(folder, "patterns").run("--choices", record, env={"SEXPGPU_PATTERNS": "0"})
    expect(run.level() == 3 and "patterns off" in run.line("determinism"), run.line("determinism"))


@test
def all_choices_that_cannot_be_taken_are_listed_before_the_first_step(folder):
    machine = Machine(folder, "a")
    theirs = machine.run()
    with open(os.path.join(theirs.out, "step-4", "experiment.json"), encoding="utf-8") as f:
        choices = json.load(f)["choices"]
    convolution = next(key for key in choices["convolutions"] if "batch: 64," in key)
    choices["convolutions"][convolution] = "engine 999"
    choices["stacking"] = 3
    product = next(key for key in choices["products"] if "k: 4096," in key)
    del choices["products"][product]
    record = os.path.join(folder, "record.json")
    with open(record, "w", encoding="utf-8") as f:
        json.dump(choices, f)
    said = machine.refused("--choices", record, out="refused")
    for text in (" of ", "recorded choices cannot be taken", convolution, "engine 999", "stacking", product, "this device is", "--choices fresh"):
        expect(text in said, text, "not in", said)
    fresh = machine.run("--choices", "fresh", out="fresh")
    expect(fresh.level() == 1, fresh.line("determinism"))


@test
def another_order_of_an_engine_changes_bits(folder):
    machine = Machine(folder, "a")
    one = machine.run(out="one")
    other = Machine(folder, "b", **slower(one)).run()
    changed = differ(one, other)
    expect("convolutions" in changed and not one.same(other), changed)


@test
def a_portable_run_has_the_bits_of_the_cpu(folder):
    machine = Machine(folder, "a")
    there = machine.run("--portable", out="there")
    here = Run(machine.call(RUN, machine.experiment, "--metrics", "stdout", "--checkpoint-dir",
                            os.path.join(machine.folder, "here")), os.path.join(machine.folder, "here"))
    expect(there.same(here) and there.level() == 2, there.line("determinism"))
    expect(Machine(folder, "b", card="h100").run("--portable").same(here))
    resumed = Run(machine.call(RUN, machine.experiment, "--metrics", "stdout", "--resume", os.path.join(there.out, "step-2"),
                               "--checkpoint-dir", os.path.join(machine.folder, "resumed")),
                  os.path.join(machine.folder, "resumed"))
    expect(resumed.level() == 2 and resumed.same(here), resumed.line("determinism"))


@test
def an_offline_evaluation_takes_the_checkpoints_choices_on_its_kind_of_device(folder):
    machine = Machine(folder, "a")
    run = machine.run()
    inline = [bare(v) for v in run.values if '"eval/held/loss"' in v]
    same, other = Machine(folder, "b", **slower(run)), Machine(folder, "c", card="h100")
    for machine, level in ((same, 2), (other, 3)):
        result = machine.call(EVALUATE, run.out, "--device", "cuda", "--metrics", "stdout")
        expect(result.returncode == 0, result.stderr[-2000:])
        values = [bare(v) for v in steady(result.stdout).splitlines() if '"eval/held/loss"' in v and '"value"' in v]
        expect(f"determinism {level}" in result.stdout, result.stdout[-3000:])
        expect(level == 3 or values == inline, values, inline)
    for flags, words in ((("--choices", "fresh"), "3: chosen again on this machine; the checkpoint's choices are of this kind"),
                         (("--deterministic",), "2: nothing is measured; every --deterministic run on this kind")):
        result = same.call(EVALUATE, os.path.join(run.out, "step-4"), "--device", "cuda", *flags)
        expect(result.returncode == 0 and f"determinism         {words}" in result.stderr, result.stderr[-2000:])


@test
def an_export_pins_a_run_that_has_one_degree_of_stacking(folder):
    machine, path = Machine(folder, "one"), os.path.join(folder, "export.jsonl")
    command = (RUN, os.path.join(ROOT, "examples", "digits", "digits.sexp"), "--device", "cuda", "--steps", "2", "--checkpoint-dir")
    expect(machine.call(*command, "a").returncode == 0)
    with open(path, "w", encoding="utf-8") as f:
        f.write(machine.call(CHOICES, "export").stdout)
    pinned = machine.call(*command, "b", "--choices", path)
    expect(pinned.returncode == 0 and "2: pinned to recorded choices of this kind of device" in pinned.stderr, pinned.stderr)
    found = machine.call(CHOICES, "why", "--miss", "a/step-2")
    expect(found.returncode == 0 and found.stdout == "1 of 1 choices of the record are keys of the store\n", found)


@test
def a_device_without_cudnn_records_that_no_engine_was_chosen(folder):
    libraries, machine = os.path.join(folder, "libraries"), Machine(folder, "a")
    os.makedirs(libraries)
    for name in ("libcuda.so.1", "libnvrtc.so.13", "libcublas.so.13", "libcublasLt.so.13"):
        os.symlink(os.path.join(BUILD, "test", "cudasim", name), os.path.join(libraries, name))
    with open(os.path.join(libraries, "libcudnn.so.9"), "w", encoding="utf-8") as f:
        f.write("no library")  # found first, where another is installed

    def run(out, *arguments):
        return machine.call("env", f"LD_LIBRARY_PATH={libraries}", RUN, machine.experiment, "--device", "cuda", "--steps", 2,
                            "--metrics", "stdout", "--checkpoint-dir", os.path.join(machine.folder, out), *arguments)

    theirs = machine.run("--steps", 2, out="theirs")
    expect("convolution engines" in theirs.line("choices"), theirs.report)
    bare_run = Run(run("bare"), os.path.join(machine.folder, "bare"))
    expect("no cuDNN" in bare_run.choices["device"] and "convolution engine" not in bare_run.line("choices"), bare_run.report)
    expect(bare_run.choices["convolutions"] == dict.fromkeys(theirs.choices["convolutions"], "none"), bare_run.choices)
    own = Run(run("own", "--choices", os.path.join(bare_run.out, "step-2")), os.path.join(machine.folder, "own"))
    expect(own.level() == 2 and own.same(bare_run) and own.choices == bare_run.choices, own.line("determinism"))
    refused = run("refused", "--choices", os.path.join(theirs.out, "step-2"))
    expect(refused.returncode == 3 and "E-CHOICE-001" in refused.stderr, refused.returncode, refused.stderr[-2000:])
    expect(refused.stderr.count("the device has no cuDNN") == len(theirs.choices["convolutions"]), refused.stderr)


main_simulated()
