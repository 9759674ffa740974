#!/usr/bin/env python3
"""How the stacking of a run on CUDA is decided, on simulated machines: by the cost model where it is ahead by more than 5
percent, from rates that the machine measures once and remembers; else by measuring. usage: test_stacking.py BUILD"""
import json, os, subprocess, tempfile

from harness import BUILD, ROOT, RUN, environment, expect, main, steady, test

SIMULATOR = os.path.join(ROOT, "tests", "cudasim", "run")
CHOICES, EXPLAIN = (os.path.join(BUILD, "bin", name) for name in ("sexpgpu-choices", "sexpgpu-explain"))
# Stacked, a step has fewer launches, and copies what is generated into slices: where a launch takes no time, it moves more
# bytes.
EXPERIMENT = """(defknob microbatches 4 :min 1)
(defgenerator made :fields ((x [64] f32)) :trips 1 :init (broadcast-to (cast (input :step) f32) [2048 64])
  :trip (lambda (s) (+ s 1.0)) :emit (lambda (s) [s]))
(defrun stacked :seed 1 :steps 2 :data made :batch 2048 :microbatches microbatches :checkpoint-every 2
  :loss (sum (reduce-max (* x (param "p" [64] :init (ones shape))) :axis 0))
  :optimizer (sgd :lr 0.001))
"""
COSTS = ["64 launches in a sequence", "8388608 f32 operations in a block", "a sequence of a launch", "copy 134217728 bytes",
         "upload 16777216 bytes"]
NO_LAUNCHES = {"speed.measure_nothing": 100}  # what is measured of launches says that they take next to no time
ALIKE = {"speed.measure_arithmetic": 0.000001}  # arithmetic seems to take all the time, and is that of the microbatches
SHARED = tempfile.TemporaryDirectory(prefix="stacking-")  # compiled kernels, for all machines: they move no bits


class Machine:
    """A simulated machine: settings of the simulator, a cache of its own."""

    def __init__(self, folder, name, settings=None, experiment=EXPERIMENT):
        self.folder, self.settings = os.path.join(folder, name), settings or {}
        cache = os.path.join(self.folder, "cache", "sexpgpu")
        os.makedirs(cache)
        os.makedirs(os.path.join(SHARED.name, "cubins"), exist_ok=True)
        os.symlink(os.path.join(SHARED.name, "cubins"), os.path.join(cache, "cubins"))
        self.store = os.path.join(cache, "choices.db")
        self.experiment = os.path.join(self.folder, "stacked.sexp")
        with open(self.experiment, "w", encoding="utf-8") as f:
            f.write(experiment)

    def call(self, *command, env=None, stdin=None):
        settings = [part for name, value in self.settings.items() for part in ("--set", f"{name}={value}")]
        extra = {"XDG_CACHE_HOME": os.path.join(self.folder, "cache"), **(env or {})}
        result = subprocess.run([SIMULATOR, "--build", BUILD, *settings, "--", *map(str, command)], capture_output=True,
                                text=True, timeout=600, cwd=self.folder, env=environment(extra), input=stdin)
        expect(result.returncode == 0, result.returncode, result.stderr[-2000:])
        return result

    def run(self, *arguments, out="out", **how):
        """The store's line, the stacking, and the values of the run."""
        result = self.call(RUN, self.experiment, "--device", "cuda", "--metrics", "stdout", "--checkpoint-dir", out, *arguments,
                           **how)
        line = [line[20:] for line in result.stderr.splitlines() if line.startswith("store ")]
        with open(os.path.join(self.folder, out, "step-2", "experiment.json"), encoding="utf-8") as f:
            record = json.load(f)
        values = [line for line in steady(result.stdout).splitlines() if '"record": "value"' in line]
        return line[0] if line else None, record["choices"].get("stacking"), values, record["digest"]

    def export(self):
        return [json.loads(line) for line in self.call(CHOICES, "export", "--measurements").stdout.splitlines()]

    def costs(self):
        return [record["key"] for record in self.export() if record["record"] == "cost"]

    def choice(self):
        return [record for record in self.export() if record.get("kind") == "stacking"][0]


@test
def the_models_pick_is_taken_remembered_and_repeated(folder):
    machine = Machine(folder, "a")
    line, stacking, *bits = machine.run(out="first")
    expect(line.endswith("0 remembered, 1 measured, the stacking by the cost model"), line)
    expect(stacking == 4 and machine.costs() == COSTS, stacking, machine.costs())
    expect(machine.choice()["reason"] == "the cost model's pick" and "candidates" not in machine.choice(), machine.choice())
    line, again, *repeated = machine.run(out="again")
    expect(line.endswith("2 remembered, 0 measured") and again == 4 and repeated == bits, line, again)


@test
def degrees_that_the_model_does_not_tell_apart_are_measured(folder):
    machine = Machine(folder, "a", ALIKE)
    line, stacking, *bits = machine.run(out="first")
    expect(line.endswith("0 remembered, 2 measured, the stacking by measurement"), line)
    expect([c["value"] for c in machine.choice()["candidates"]] == [1, 2, 4], machine.choice())
    line, again, *repeated = machine.run(out="again")
    expect(line.endswith("2 remembered, 0 measured") and again == stacking and repeated == bits, line, again)


@test
def machines_of_other_speeds_pick_otherwise(folder):
    picks = [Machine(folder, f"m{i}", settings).run() for i, settings in enumerate(({}, NO_LAUNCHES))]
    for line, *_ in picks:
        expect(line.endswith("the stacking by the cost model"), line)
    expect([stacking for _, stacking, *_ in picks] == [4, 1], picks)


@test
def times_are_those_of_the_device_that_they_are_remembered_of(folder):
    source, machine = Machine(folder, "a"), Machine(folder, "b", NO_LAUNCHES)
    source.run()
    lines = source.call(CHOICES, "export", "--measurements").stdout.splitlines(keepends=True)
    costs = [line for line in lines if '"choice"' not in line]
    machine.call(CHOICES, "import", "-", stdin="".join(costs))
    expect(machine.costs() == COSTS)
    explained = machine.call(EXPLAIN, machine.experiment, "--device", "cuda", "--report").stdout
    expect("stacking 4" in explained and "1 that a run will measure" in explained, explained)
    line, stacking, *_ = machine.run()
    expect(stacking == 4 and "the stacking by the cost model" in line, line, "what is remembered is not measured again")


@test
def without_a_store_the_stacking_is_measured(folder):
    machine = Machine(folder, "a", NO_LAUNCHES)
    line, stacking, *_ = machine.run(env={"XDG_CACHE_HOME": "/proc/nowhere"})
    expect(line.startswith("none: ") and stacking == 4, line, stacking, "rates that cannot be remembered decide nothing")


@test
def without_memory_for_the_pieces_the_stacking_is_measured(folder):
    machine = Machine(folder, "a", NO_LAUNCHES)
    machine.run("--set", "microbatches=1", out="alone")
    line, stacking, *_ = machine.run(env={"SEXPGPU_MEMORY": "0.02"})
    expect(line.endswith("the stacking by measurement") and stacking == 4 and machine.costs() == [], line, stacking)


@test
def what_needs_no_rates_measures_none(folder):
    machine = Machine(folder, "a")
    explained = machine.call(EXPLAIN, machine.experiment, "--device", "cuda", "--report").stdout
    expect("2 that a run will measure" in explained, explained)
    machine.run("--set", "microbatches=1", out="alone")
    expect(machine.costs() == [], machine.costs())
    machine.run(out="chosen")
    pinned = Machine(folder, "b", NO_LAUNCHES)
    _, stacking, *_ = pinned.run("--choices", os.path.join(machine.folder, "chosen", "step-2"), out="pinned")
    expect(stacking == 4)
    for flag in ("--deterministic", "--portable"):
        _, stacking, *_ = pinned.run(flag, out=flag[2:])
        expect(stacking in (1, None), flag, stacking)
    expect(not os.path.exists(pinned.store), "it opened a store")


@test
def only_products_that_the_plans_have_are_timed(folder):
    narrow = EXPERIMENT.replace('(sum (reduce-max (* x (param "p" [64] :init (ones shape))) :axis 0))',
                                '(mean (cast (matmul (cast x bf16) (param "p" [64 8] :dtype bf16 :init '
                                '(cast (ones shape) bf16))) f32))')
    narrow = narrow.replace("(sgd :lr 0.001)", "(lambda (p g) (cast (- (cast p f32) (* 0.5 (cast g f32))) (dtype-of p)))")
    narrow = narrow.replace("2048", "64")
    machine = Machine(folder, "a", experiment=narrow)
    machine.run()
    expect(machine.costs() == sorted(COSTS + ["product 2048 x 2048 x 2048 bf16"]), machine.costs())


if subprocess.run([SIMULATOR, "--build", BUILD, "--", "true"], capture_output=True).returncode == 77:
    print("skipped: there is no simulated CUDA in this build\n0 passed, 0 failed")
else:
    main()
