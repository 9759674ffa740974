#!/usr/bin/env python3
"""What runs on CUDA may rely on about their bits, on the device that the loader finds: a Markdown table.

    check_levels.py BUILD [--seconds N] [--short]

Needs nothing but Python. Ends with 1 where something is not as promised, with 77 where there is no device."""
import json, os, random, shutil, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
from workloads import Tiled, tiled_floats, write_safetensors  # noqa: E402
import array  # noqa: E402

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.path.abspath(sys.argv[1])
BIN = os.path.join(BUILD, "bin")
SHORT = "--short" in sys.argv
ENDS = time.monotonic() + (float(sys.argv[sys.argv.index("--seconds") + 1]) if "--seconds" in sys.argv else 1e6)
SIZE, CHANNELS, OUT, BATCH, MICROBATCHES = (4, 4, 8, 8, 2) if SHORT else (16, 16, 64, 256, 4)  # of images and layers
# Something to choose of every kind: convolutions, unless short a long product, microbatches to stack.
EXPERIMENT = f"""(defknob steps 4)
(defdata squares :source (arrays "data.safetensors") :order shuffled)
(defun layer (x name in out) (scope name (relu (conv2d x (param "w" [out 3 3 in] :init (glorot shape)) :padding 1))))
(defun features (x) (layer (layer x "first" {CHANNELS} {OUT}) "second" {OUT} {OUT}))
(defun classify (h)
  (+ (matmul (mean h :axis [1 2]) (param "w" [{OUT} 10] :init (glorot shape))) (param "b" [10] :init (zeros shape))))
(defrun levels :seed 5 :steps steps :data squares :batch {BATCH} :microbatches {MICROBATCHES} :checkpoint-every 2 :checkpoint-keep 9
  :loss (let ((h (features x)) (rows (reshape h [{BATCH * SIZE * SIZE} {OUT}])))
          (+ (cross-entropy (classify h) y) (* 0.001 (mean (tanh (matmul (transpose rows [1 0]) rows))))))
  :optimizer (adam :lr 0.01))
"""
TESTS = []


class Broken(Exception):
    pass


class NotReached(Exception):
    pass


def check(function):
    TESTS.append(function)
    return function


def expect(condition, *words):
    if not condition:
        raise Broken(" ".join(str(w) for w in words))


def run_tool(name, *arguments, **extra):
    left = ENDS - time.monotonic()
    if left < 2:
        raise NotReached
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SEXPGPU_")}
    try:
        return subprocess.run([os.path.join(BIN, name), *map(str, arguments)], capture_output=True, text=True, timeout=left,
                              env={**environment, **extra})
    except subprocess.TimeoutExpired:
        raise NotReached from None


class Machine:
    """A cache of its own: what another machine of the same kind would begin with. Compiled kernels are shared."""

    def __init__(self, folder, name):
        self.folder = os.path.join(folder, name)
        cache, cubins = os.path.join(self.folder, "cache", "sexpgpu"), os.path.join(folder, "cubins")
        os.makedirs(cache)
        os.makedirs(cubins, exist_ok=True)
        os.symlink(cubins, os.path.join(cache, "cubins"))
        self.experiment = os.path.join(folder, "levels.sexp")

    def tool(self, name, *arguments, **extra):
        return run_tool(name, *arguments, XDG_CACHE_HOME=os.path.join(self.folder, "cache"), **extra)

    def run(self, *arguments, out="out", experiment=None, device="cuda", **extra):
        out = os.path.join(self.folder, out)
        result = self.tool("sexpgpu-run", experiment or self.experiment, "--device", device, "--metrics", "stdout",
                           "--checkpoint-dir", out, *arguments, **extra)
        return Run(result, out)


class Run:
    def __init__(self, result, out):
        words = " ".join(line for line in result.stderr.splitlines() if line.strip())
        expect(result.returncode == 0, f"exit {result.returncode}:", words[-400:])
        self.out, self.report = out, result.stderr
        records = [json.loads(line) for line in result.stdout.splitlines()]
        self.values = [(r["name"], r["step"], r.get("value"), r.get("bits")) for r in records if r["record"] == "value"]
        self.nodes = [(r["name"], r["step"], r["digest"], r.get("text", "")) for r in records if r["record"] == "digest"]
        self.choices, self.digests = {}, {}
        for step in sorted(os.listdir(out)):
            with open(os.path.join(out, step, "experiment.json"), encoding="utf-8") as f:
                record = json.load(f)
            self.choices, self.digests[step] = record.get("choices", {}), record["digest"]

    def line(self, label):
        lines = [line[20:] for line in self.report.splitlines() if line.startswith(label + " ")]
        return lines[0] if lines else ""

    def level(self):
        return self.line("determinism")[:1]


def differ(a, b):
    """Where the bits of two runs differ, in words; empty: nowhere."""
    steps = a.digests.keys() & b.digests.keys()
    tail = min(len(a.values), len(b.values))
    for x, y in zip(a.values[-tail:], b.values[-tail:]):
        if x != y:
            return f"{x[0]} of step {x[1]} is {x[2]}, the other's {y[2]}"
    wrong = [s for s in sorted(steps) if a.digests[s] != b.digests[s]]
    return f"checkpoint {wrong[0]} differs" if wrong else "" if steps else "they have no checkpoint in common"


def differing_choices(a, b):
    return [kind for kind in ("stacking", "recompute", "convolutions", "products") if a.choices.get(kind) != b.choices.get(kind)]


def taken_otherwise(run, record):
    """Choices of the run that the record has with another value. A record may have more: of degrees that were tried."""
    wrong = [kind for kind in ("stacking", "recompute") if run.choices.get(kind) != record.choices.get(kind)]
    return wrong + [key for kind in ("convolutions", "products") for key, value in run.choices.get(kind, {}).items()
                    if record.choices.get(kind, {}).get(key) != value]


def write_experiment(folder):
    random.seed(3)
    records = 4 * MICROBATCHES * BATCH
    write_safetensors(os.path.join(folder, "data.safetensors"), {
        "x": tiled_floats((records, SIZE, SIZE, CHANNELS), 1),
        "y": Tiled((records,), array.array("i", (random.randrange(10) for _ in range(1009))))})
    with open(os.path.join(folder, "levels.sexp"), "w", encoding="utf-8") as f:
        f.write(EXPERIMENT)


KEPT = {}  # runs that later checks compare with


def first_run(folder):
    if "first" not in KEPT:
        KEPT["machine"] = Machine(folder, "first")
        KEPT["first"] = KEPT["machine"].run(out="first")
    return KEPT["machine"], KEPT["first"]


@check
def two_runs_have_the_same_bits_the_first_measuring_the_second_remembering(folder):
    machine, first = first_run(folder)
    again = machine.run(out="again")
    expect(not differ(first, again), differ(first, again))
    expect(first.level() == again.level() == "1", first.line("determinism"), "/", again.line("determinism"))
    expect(" 0 measured" in again.line("store"), "the second measured:", again.line("store"))
    return f"determinism {again.line('determinism')}; store {first.line('store').split(', ', 1)[-1]}; {first.line('choices')}"


@check
def choices_measured_twice(folder):
    _, first = first_run(folder)
    KEPT["second machine"] = Machine(folder, "second")
    second = KEPT["second"] = KEPT["second machine"].run()
    kinds = differing_choices(first, second)
    expect(kinds or not differ(first, second), "the same choices,", differ(first, second))
    return f"the second measuring chose otherwise: {', '.join(kinds)}" if kinds else "the second measuring chose the same"


@check
def probes_of_the_same_candidates_are_the_same(folder):
    if "second" not in KEPT:
        raise NotReached
    probes = []
    for machine in (KEPT["machine"], KEPT["second machine"]):
        export = machine.tool("sexpgpu-choices", "export", "--measurements")
        expect(export.returncode == 0, export.stderr[-300:])
        records = [json.loads(line) for line in export.stdout.splitlines()]
        probes.append({(r["kind"], r["key"], json.dumps(c["value"])): (c.get("probe"), c["state"])
                       for r in records if r["record"] == "choice" for c in r.get("candidates", [])})
        moving = [r["key"] for r in records if r.get("bits") == "moves"]
        rejected = [k for k, (_, state) in probes[-1].items() if state == "rejected"]
    common = probes[0].keys() & probes[1].keys()
    wrong = [k for k in common if probes[0][k] != probes[1][k]]
    expect(not wrong, f"{len(wrong)} of {len(common)} differ, as of", wrong[:1])
    return f"{len(common)} candidates; bits move with {len(moving)} choices; {len(rejected)} candidates rejected"


@check
def a_run_pinned_to_a_record_has_its_bits(folder):
    _, first = first_run(folder)
    pinned = Machine(folder, "pinned").run("--choices", os.path.join(first.out, "step-4"))
    expect(not differ(first, pinned), differ(first, pinned))
    expect(pinned.level() == "2", pinned.line("determinism"))
    expect(not taken_otherwise(pinned, first), "it took otherwise:", *taken_otherwise(pinned, first))
    return f"determinism {pinned.line('determinism')}"


@check
def a_resumed_run_has_the_bits_of_the_whole(folder):
    _, first = first_run(folder)
    machine = Machine(folder, "resumed")
    half = os.path.join(machine.folder, "from", "step-2")
    shutil.copytree(os.path.join(first.out, "step-2"), half)
    after = machine.run("--resume", half)
    expect(not differ(first, after), differ(first, after))
    return f"determinism {after.line('determinism')}"


@check
def deterministic_runs_agree_without_a_record(folder):
    first, second = (Machine(folder, f"strict-{i}").run("--deterministic") for i in range(2))
    expect(not differ(first, second), differ(first, second))
    return f"determinism {first.line('determinism')}; {first.line('choices')}"


@check
def portable_runs_have_the_bits_of_the_cpu_at_every_node(folder):
    machine, said = Machine(folder, "portable"), []
    experiments = [("levels", machine.experiment, 4)] + [
        (name, os.path.join(ROOT, "examples", name, name + ".sexp"), 3 if SHORT else 20) for name in ("linear", "digits")]
    for name, experiment, steps in experiments:
        common = ["--digest-nodes", "step=2", "--digest", "every=1", "--steps", steps]
        here = machine.run(*common, out=f"{name}-cpu", experiment=experiment, device="cpu")
        there = machine.run(*common, "--portable", out=f"{name}-cuda", experiment=experiment)
        expect(len(here.nodes) == len(there.nodes), name, f"{len(here.nodes)} digests, {len(there.nodes)} on the device")
        for a, b in zip(here.nodes, there.nodes):
            expect(a == b, f"{name}: {a[0]} of step {a[1]} differs:", a[3])
        expect(not differ(here, there), name, differ(here, there))
        said.append(f"{name}: {len(here.nodes)} digests, {steps} steps")
    return "; ".join(said)


@check
def the_optimizer_and_patterns_move_no_bits_of_a_portable_run(folder):
    machine = Machine(folder, "plain")
    whole = machine.run("--portable", out="whole")
    for name in ("SEXPGPU_OPTIMIZE", "SEXPGPU_PATTERNS"):
        other = machine.run("--portable", out=name, **{name: "0"})
        expect(not differ(whole, other), f"{name}=0:", differ(whole, other))
    return "SEXPGPU_OPTIMIZE=0, SEXPGPU_PATTERNS=0"


def say(name, result, note):
    print(f"| {name.replace('_', ' ')} | {result} | {str(note).replace('|', '/')} |".replace("\n", " "), flush=True)


def main():
    facts = subprocess.run([os.path.join(BUILD, "test", "gpu", "check_facts"), "--name"], capture_output=True, text=True)
    if facts.returncode:
        print(f"skipped: {facts.stdout.strip()}")
        return 77
    counts = {"passed": 0, "FAILED": 0, "not reached": 0}
    print("| what | result | seen |\n| --- | --- | --- |", flush=True)
    with tempfile.TemporaryDirectory(prefix="levels-") as folder:
        write_experiment(folder)
        for function in TESTS:
            try:
                result, note = "passed", function(folder)
            except Broken as why:
                result, note = "FAILED", why
            except NotReached:
                result, note = "not reached", "the time was up"
            except (OSError, KeyError, ValueError) as why:
                result, note = "FAILED", f"{type(why).__name__}: {why}"
            counts[result] += 1
            say(function.__name__, result, note)
    print(f"\n{counts['passed']} passed, {counts['FAILED']} failed, {counts['not reached']} not reached")
    return counts["FAILED"] > 0


sys.exit(main())
