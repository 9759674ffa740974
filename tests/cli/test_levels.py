#!/usr/bin/env python3
"""What a run on CUDA may rely on about its bits, on simulated machines: the table of flags row by row, the ways in which
level 1 is lost one by one, the three levels, and refusals. usage: test_levels.py BUILD"""
import json, os, shutil, subprocess, tempfile

import numpy

from harness import BUILD, ROOT, RUN, environment, expect, main, steady, test

SIMULATOR = os.path.join(ROOT, "tests", "cudasim", "run")
EVALUATE, CHOICES = (os.path.join(BUILD, "bin", name) for name in ("sexpgpu-evaluate", "sexpgpu-choices"))
# Something to choose of every kind: convolutions, a weight gradient of 4 096 terms, four microbatches.
EXPERIMENT = """(defknob steps 4)
(defdata squares :source (arrays "data.npz") :order shuffled)
(defun layer (x name in out) (scope name (relu (conv2d x (param "w" [out 3 3 in] :init (glorot shape)) :padding 1))))
(defun mix (z) (mean (relu (matmul (reshape z [4096 16]) (param "mix" [16 16] :init (glorot shape)))) :axis -1))
(defun classify (x z)
  (let ((h (mean (layer (layer x "first" 4 8) "second" 8 8) :axis [1 2])) (m (reshape (mix z) [64 64])))
    (+ (matmul (concat [h m] :axis 1) (param "w" [72 10] :init (glorot shape))) (param "b" [10] :init (zeros shape)))))
(defrun levels :seed 5 :steps steps :data squares :batch 64 :microbatches 4 :checkpoint-every 2 :checkpoint-keep 9
  :loss (cross-entropy (classify x z) y)
  :optimizer (adam :lr 0.01))
(defeval held :run levels :every 2 :data squares :batch 64 :metrics (("loss" (cross-entropy (classify x z) y))))
"""
SHARED = tempfile.TemporaryDirectory(prefix="levels-")  # compiled kernels, for all machines: they move no bits


class Machine:
    """A simulated machine: a card, settings of the simulator, a cache of its own."""

    def __init__(self, folder, name, card="a100", **settings):
        self.folder, self.card, self.settings = os.path.join(folder, name), card, settings
        cache = os.path.join(self.folder, "cache", "sexpgpu")
        os.makedirs(cache)
        os.makedirs(os.path.join(SHARED.name, "cubins"), exist_ok=True)
        os.symlink(os.path.join(SHARED.name, "cubins"), os.path.join(cache, "cubins"))
        self.experiment = os.path.join(self.folder, "levels.sexp")
        with open(self.experiment, "w", encoding="utf-8") as f:
            f.write(EXPERIMENT)
        random = numpy.random.default_rng(3)
        numpy.savez(os.path.join(self.folder, "data.npz"), x=random.standard_normal((512, 4, 4, 4)).astype(numpy.float32),
                    z=random.standard_normal((512, 64, 16)).astype(numpy.float32),
                    y=random.integers(0, 10, 512).astype(numpy.int32))

    def call(self, *command, env=None, more=None):
        settings = [part for name, value in {**self.settings, **(more or {})}.items()
                    for part in ("--set", f"{name.replace('__', '.')}={value}")]
        extra = {"XDG_CACHE_HOME": os.path.join(self.folder, "cache"), **(env or {})}
        return subprocess.run([SIMULATOR, "--build", BUILD, "--card", self.card, *settings, "--", *map(str, command)],
                              capture_output=True, text=True, timeout=600, cwd=self.folder,
                              env={k: v for k, v in environment(extra).items() if v is not None})

    def start(self, *arguments, out="out", **how):
        return self.call(RUN, self.experiment, "--device", "cuda", "--metrics", "stdout", "--checkpoint-dir",
                         os.path.join(self.folder, out), *arguments, **how)

    def run(self, *arguments, **how):
        return Run(self.start(*arguments, **how), os.path.join(self.folder, how.get("out", "out")))

    def refused(self, *arguments, **how):
        result = self.start(*arguments, **how)
        expect(result.returncode == 3 and "E-CHOICE-001" in result.stderr, result.returncode, result.stderr[-2000:])
        expect('"name": "train/loss"' not in result.stdout, "it took a step")
        return result.stderr


class Run:
    """What a run that ended well gave."""

    def __init__(self, result, out):
        expect(result.returncode == 0, result.returncode, result.stderr[-3000:])
        self.out, self.report = out, result.stderr
        self.values = [line for line in steady(result.stdout).splitlines() if '"record": "value"' in line]
        self.choices, self.digests = {}, {}
        for step in sorted(os.listdir(out)):
            with open(os.path.join(out, step, "experiment.json"), encoding="utf-8") as f:
                record = json.load(f)
            self.choices, self.digests[step] = record["choices"], record["digest"]

    def line(self, label):
        lines = [line[20:] for line in self.report.splitlines() if line.startswith(label + " ")]
        expect(len(lines) == 1, f"{len(lines)} lines {label}:", self.report)
        return lines[0]

    def level(self):
        return int(self.line("determinism")[0])

    def same(self, other):
        """Whether losses, metrics, parameters and states have the same bits, at every step that both have."""
        steps = self.digests.keys() & other.digests.keys()
        tail = min(len(self.values), len(other.values))
        return bool(steps) and all(self.digests[s] == other.digests[s] for s in steps) and \
            [bare(v) for v in self.values[-tail:]] == [bare(v) for v in other.values[-tail:]]


def bare(line):
    record = json.loads(line)
    return {name: record[name] for name in ("name", "step", "value", "bits") if name in record}


def slower(run):
    """Settings that make another machine choose otherwise than the run did."""
    return {f"speed.cudnn.{engine}": "0.05" for engine in engines(run)}


def engines(run):
    return sorted({text.split()[1] for text in run.choices["convolutions"].values()})


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
    hurt = machine.run(out="hurt", more={"memory.fail_graph": "5"})
    lines = [line for line in hurt.report.splitlines() if line.startswith("memory: allocation failed")]
    expect(len(lines) == 1 and "unstacked from step" in lines[0], hurt.report)
    expect(whole.digests["step-2"] == hurt.digests["step-2"] and whole.digests["step-4"] != hurt.digests["step-4"])
    stopped = machine.start("--choices", os.path.join(whole.out, "step-4"), out="stopped", more={"memory.fail_graph": "5"})
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


if subprocess.run([SIMULATOR, "--build", BUILD, "--", "true"], capture_output=True).returncode == 77:
    print("skipped: there is no simulated CUDA in this build\n0 passed, 0 failed")
else:
    main()
