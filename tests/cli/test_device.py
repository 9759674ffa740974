#!/usr/bin/env python3
"""Training on the simulated CUDA device through the tools: with --portable the CPU's bits in every record, node and
checkpoint, across resumes, kills and signals; without, its losses within a bound, and the same again; and what stops a run,
with its code. No run may leave a violation: the simulator would end it with status 86. usage: test_device.py BUILD"""
import json, os, shutil, signal, subprocess, time

import numpy

from harness import BUILD, EXAMPLES, QUICK, RUN, environment, expect, records, test
from machines import EVALUATE, SHARED, SIMULATOR, main_simulated

CARDS = ["h100"] if QUICK else ["a100", "h100"]
# Stages, a generator, two dtypes, loaded weights, draws, statistics, every optimizer, probes, evaluations.
EXPERIMENT = """(defdata rows :source (arrays "rows.npz") :order shuffled)
(defgenerator made :fields ((x [6] f32) (y [] i32)) :trips 2 :init (normal [batch 6] :salt [:step :microbatch])
  :trip (lambda (s) (+ (* 0.5 s) (normal [batch 6] :salt [:step :microbatch :trip])))
  :emit (lambda (s) [s (cast (floor (abs (* 2 (reduce-min s :axis 1)))) i32)]))
(defun dense (x name in out)
  (scope name (+ (matmul x (param "w" [in out] :init (glorot shape))) (param "b" [out] :init (zeros shape)))))
(defun narrow (x name in out)
  (cast (matmul (cast x bf16) (cast (param name [in out] :init (normal shape :std 0.3)) bf16)) f32))
(defun model (x)
  (let ((h (dropout (gelu (dense (* x (param "scale" [6] :load (weights "scale.npz" "scale"))) "adam" 6 8)) :p 0.25))
        (h (layer-norm h (param "norm/g" [8] :init (ones shape)) (param "norm/b" [8] :init (zeros shape))))
        (h (+ (tanh (dense h "muon" 8 8)) (narrow h "lion" 8 8))))
    (dense h "factor" 8 5)))
(defun step (p g)
  (let ((at (lambda (pattern) (matches pattern (param-path)))))
    (if (at "adam/*") ((adamw :lr 0.01 :weight-decay 0.1) p g)
      (if (at "muon/*") ((muon :lr 0.01 :other (adam :lr 0.01)) p g)
        (if (at "lion") ((lion :lr 0.001) p g)
          (if (at "factor/*") ((adafactor :lr 0.01) p g)
            ((momentum :lr (cosine :peak 0.05 :warmup 2 :total 9) :momentum 0.9) p g)))))))
(defrun mixed :seed 5 :batch 6 :microbatches 2 :clip 1.0 :optimizer step :checkpoint-every 2 :checkpoint-keep 9
  :loss (cross-entropy (probe "logits" (model x)) (min y 4)) :metrics (("largest" (reduce-max (model x))))
  :diagnostics ("logits" "grad/muon/*" "update/*") :diagnostics-every 3
  :stages ((stage "rows" :steps 4 :data rows) (stage "made" :steps 3 :data made :batch 4 :microbatches 3)))
(defeval held :run mixed :every 3 :data rows :batch 7
  :metrics (("loss" (cross-entropy (model x) y)) ("worst" (reduce-max (model x)) :reduce max)))"""
ENDLESS = """(defrun endless :seed 3 :steps 1000000 :checkpoint-every 5 :optimizer (adam :lr 0.01)
  :loss (let ((x (normal [8 3] :salt :step)) (y (matmul x (param "w" [3 2] :init (normal shape))))) (mean (* y y))))"""
CACHE = os.path.join(SHARED.name, "device")
os.makedirs(os.path.join(CACHE, "sexpgpu"))


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def mixed(folder):
    random = numpy.random.default_rng(7)
    numpy.savez(os.path.join(folder, "rows.npz"), x=random.standard_normal((37, 6)).astype(numpy.float32),
                y=random.integers(0, 5, 37).astype(numpy.int32))
    numpy.savez(os.path.join(folder, "scale.npz"), scale=random.standard_normal(6).astype(numpy.float32))
    return write(folder, "mixed.sexp", EXPERIMENT)


def command(*arguments, card="a100", settings=()):
    words = [word for setting in settings for word in ("--set", setting)]
    return [SIMULATOR, "--build", BUILD, "--card", card, *words, "--", *map(str, arguments)]


def call(*arguments, env=None, cwd=None, **how):
    extra = {"XDG_CACHE_HOME": CACHE, **(env or {})}
    result = subprocess.run(command(*arguments, **how), capture_output=True, text=True, timeout=600, env=environment(extra),
                            cwd=cwd)
    expect(result.returncode != 86 and "cudasim:" not in result.stderr, result.stderr[-2000:])
    return result


def train(path, out, *flags, device="cuda", status=0, **how):
    """Every value and digest, without what names the machine, and the checkpoints' digests."""
    result = call(RUN, path, "--device", device, "--quiet", "--metrics", "stdout", "--checkpoint-dir", out, *flags, **how)
    expect(result.returncode == status, f"exit {result.returncode}:", result.stderr[-2000:])
    return [r for r in records(result.stdout) if r["record"] in ("value", "digest")], digests(out)


def digests(out):
    found = {}
    for step in os.listdir(out):
        with open(os.path.join(out, step, "experiment.json"), encoding="utf-8") as f:
            found[step] = json.load(f)["digest"]
    return found


def same(a, b):
    for x, y in zip(a[0], b[0]):
        expect(x == y, "\n", x, "\n", y)
    expect(len(a[0]) == len(b[0]) and a[1] == b[1], len(a[0]), len(b[0]), a[1], b[1])


def losses(run):
    return [r["value"] for r in run[0] if r.get("name") == "train/loss"]


# ---- the CPU's bits ------------------------------------------------------------------------------------------------

@test
def portable_has_the_cpus_bits_in_every_node_value_and_checkpoint(folder):
    path = mixed(folder)
    for nodes in ("3",) if QUICK else ("3", "6"):
        flags = ["--digest", "every=1", "--digest-nodes", "step=" + nodes]
        here = train(path, f"{folder}/cpu-{nodes}", *flags, device="cpu")
        expect(len(here[0]) > 300 and len(here[1]) == 4, len(here[0]), here[1])
        for card in CARDS:
            same(here, train(path, f"{folder}/{card}-{nodes}", *flags, "--portable", card=card))
    same(train(path, f"{folder}/cpu", device="cpu"), train(path, f"{folder}/cuda", "--portable", "--deterministic"))


@test
def portable_examples_have_the_cpus_bits(folder):
    for name, steps in (("linear", 6), ("digits", 3)):
        path = os.path.join(EXAMPLES, name, name + ".sexp")
        here = train(path, f"{folder}/{name}-cpu", "--steps", steps, "--digest", "every=1", device="cpu")
        same(here, train(path, f"{folder}/{name}", "--steps", steps, "--digest", "every=1", "--portable"))


@test
def a_portable_run_goes_on_across_devices(folder):
    path = mixed(folder)
    whole = train(path, f"{folder}/whole", device="cpu")
    for first, second in (("cpu", "cuda"), ("cuda", "cpu"), ("cuda", "cuda")):
        out = f"{folder}/{first}-{second}"
        flags = lambda device: ["--portable"] if device == "cuda" else []
        train(path, out, *flags(first), device=first)
        for step in os.listdir(out):
            if step != "step-2":
                shutil.rmtree(os.path.join(out, step))
        rest = train(path, out, "--resume", "latest", *flags(second), device=second)
        expect(rest[1] == whole[1], first, second, rest[1], whole[1])
        late = [r for r in whole[0] if r["step"] > 2]
        expect(rest[0] == late, first, second)


@test
def an_offline_evaluation_has_the_cpus_values(folder):
    path, out = mixed(folder), f"{folder}/out"
    whole = train(path, out, device="cpu")
    inline = [(r["name"], r["step"], r["value"]) for r in whole[0] if r["name"].startswith("eval/") and r["step"] == 7]
    result = call(EVALUATE, f"{out}/step-7", "--device", "cuda", "--portable", "--metrics", "stdout", "--quiet",
                  cwd=folder)
    expect(result.returncode == 0, result.stderr)
    values = [(r["name"], r["step"], r["value"]) for r in records(result.stdout) if r["record"] == "value"]
    expect(inline and values == inline, values, inline)


@test
def a_signal_and_a_kill_leave_what_a_resume_goes_on_from(folder):
    path = write(folder, "endless.sexp", ENDLESS)
    for number, status in ((signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)):
        out = f"{folder}/{int(number)}"
        process = subprocess.Popen(command(RUN, path, "--device", "cuda", "--portable", "--quiet", "--checkpoint-dir", out),
                                   stderr=subprocess.PIPE, text=True, env=environment({"XDG_CACHE_HOME": CACHE}))
        while not os.path.isdir(f"{out}/step-10"):
            expect(process.poll() is None, "it ended early")
            time.sleep(0.005)
        process.send_signal(number)
        error = process.communicate(timeout=60)[1]
        expect(process.returncode == status and "cudasim" not in error, process.returncode, error)
        last = max(int(name.split("-")[1]) for name in os.listdir(out) if name.startswith("step-"))
        end = f"step-{last + 8}"
        rest = train(path, out, "--portable", "--resume", "latest", "--steps", last + 8)
        straight = train(path, out + "-straight", "--steps", last + 8, device="cpu")
        expect(rest[1][end] == straight[1][end], number, rest[1], straight[1])


# ---- ordinary runs --------------------------------------------------------------------------------------------------

@test
def losses_are_near_the_cpus_and_repeat(folder):
    for path, bound, moves in ((mixed(folder), 1e-4, False), (os.path.join(EXAMPLES, "digits", "digits.sexp"), 1e-5, True)):
        name = os.path.basename(path)
        here = train(path, f"{folder}/{name}-cpu", "--steps", 7, device="cpu")
        for card in CARDS:
            for flags in ((), ("--deterministic",)):
                outs = [f"{folder}/{name}-{card}-{len(flags)}-{i}" for i in range(2)]
                first, again = (train(path, out, "--steps", 7, *flags, card=card) for out in outs)
                same(first, again)
                far = [abs(a - b) / abs(b) for a, b in zip(losses(first), losses(here))]
                expect(len(far) == 7 and max(far) < bound, name, card, flags, far)
                expect(not moves or first[1] != here[1], "cuBLAS multiplies otherwise than numerics 1")


@test
def a_step_takes_no_memory_and_is_replayed(folder):
    path = write(folder, "endless.sexp", ENDLESS)

    def fits(steps, kinds, first):
        """Whether a run of so many steps does with what the simulator grants before this one."""
        result = call(RUN, path, "--device", "cuda", "--quiet", "--deterministic", "--steps", steps,
                      settings=[f"memory.{kind}={first}-" for kind in kinds])
        return result.returncode == 0

    def least(steps, kinds):
        low, high = 1, 128
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if fits(steps, kinds, middle) else (middle + 1, high)
        expect(1 < low < 128, kinds, low)
        return low

    memory = ["fail_at", "fail_host"]
    expect(fits(12, memory, least(1, memory)), "memory is taken in a step")
    expect(fits(12, ["fail_launch"], least(3, ["fail_launch"])), "kernels are launched beside the recorded sequences")
    expect(not fits(12, ["fail_graph"], 20) and fits(12, ["fail_graph"], 25), "two sequences a step")


# ---- what stops a run -----------------------------------------------------------------------------------------------

@test
def an_id_out_of_range_stops_at_the_last_whole_step(folder):
    numpy.savez(os.path.join(folder, "ids.npz"), ids=numpy.array([[0, 1], [2, 3], [1, 0], [3, 2], [7, 1], [0, 2]], "int32"))
    path = write(folder, "ids.sexp", """(defdata ids :source (arrays "ids.npz"))
(defrun r :seed 1 :steps 3 :data ids :batch 1 :microbatches 2 :optimizer (adam :lr 0.1) :checkpoint-every 1 :checkpoint-keep 9
  :loss (let ((h (gather (scope "table" (param "w" [4 3] :init (normal shape))) ids))) (mean (* h h))))""")
    said, left = [], []
    for device in ("cpu", "cuda"):
        for flags in ((), ("--portable",)) if device == "cuda" else ((),):
            out = f"{folder}/{device}{len(flags)}"
            result = call(RUN, path, "--device", device, "--quiet", "--checkpoint-dir", out, *flags)
            expect(result.returncode == 2 and "id 7 at index 0 is outside 0 to 3" in result.stderr, result.stderr)
            said.append(result.stderr)
            left.append(digests(out))
    expect(said[0] == said[1] == said[2], said)
    expect(left[0] == left[2] and left[0].keys() == left[1].keys() == {"step-1", "step-2"}, left)
    with open(path, encoding="utf-8") as f:
        late = write(folder, "late.sexp", f.read().replace(":checkpoint-every 1", ":checkpoint-every 3"))
    for device, before in (("cpu", left[0]), ("cuda", left[1])):  # what is left is written after the step that stopped
        out = f"{folder}/late-{device}"
        expect(call(RUN, late, "--device", device, "--quiet", "--checkpoint-dir", out).returncode == 2)
        expect(digests(out) == {"step-2": before["step-2"]}, digests(out), before)


FAULTS = [
    ("E-DEVICE-021", ["count=0"], {}), ("E-DEVICE-012", ["driver.version=11080"], {}),
    ("E-DEVICE-012", ["nvrtc.version=11.8"], {}), ("E-DEVICE-012", ["cublas.version=110000"], {}),
    ("E-DEVICE-026", ["memory.fail_at=1-"], {}), ("E-DEVICE-026", ["memory.used=39.9"], {}),
    ("E-DEVICE-023", ["device.capability=7.0"], {}), ("E-DEVICE-022", [], {"SEXPGPU_DEVICES": "3"}),
]


@test
def what_the_device_lacks_is_said_with_its_code(folder):
    path = os.path.join(EXAMPLES, "linear", "linear.sexp")
    for code, settings, env in FAULTS:
        result = call(RUN, path, "--device", "cuda", "--quiet", "--steps", 2, settings=settings, env=env)
        expect(result.returncode == 5 and result.stderr.startswith(code), code, settings, result.returncode, result.stderr)
    missing = subprocess.run([RUN, path, "--device", "cuda", "--quiet"], capture_output=True, text=True,
                             env=environment({"LD_LIBRARY_PATH": folder}))
    expect(missing.returncode in (0, 5) and (missing.returncode == 0 or "E-DEVICE-0" in missing.stderr), missing.stderr)


@test
def variables_that_move_bits_unseen_are_not_heeded(folder):
    path = write(folder, "endless.sexp", ENDLESS)
    for name, value in (("NVIDIA_TF32_OVERRIDE", "0"), ("CUBLAS_WORKSPACE_CONFIG", ":16:8"), ("CUDA_FORCE_PTX_JIT", "1"),
                        ("CUBLAS_EMULATION_STRATEGY", "eager"), ("CUBLASLT_WORKSPACE_SIZE", "64")):
        # the simulator ends with status 86 where one stays set
        result = call(RUN, path, "--device", "cuda", "--quiet", "--steps", 1, env={name: value})
        expect(result.returncode == 0 and f"warning: {name} is set" in result.stderr, result.stderr)
        expect("warning" not in call(RUN, path, "--quiet", "--steps", 1, env={name: value}).stderr, "the CPU reads none")


@test
def allocations_that_fail_at_the_start_leave_nothing_behind(folder):
    path = write(folder, "endless.sexp", ENDLESS)
    for at in range(1, 12, 4 if QUICK else 1):
        for setting in ("memory.fail_at", "memory.fail_host"):
            result = call(RUN, path, "--device", "cuda", "--quiet", "--deterministic", "--steps", 1,
                          settings=[f"{setting}={at}-"])
            good = result.returncode == 0 or (result.returncode == 5 and "E-DEVICE-0" in result.stderr) or \
                (setting == "memory.fail_host" and "E-RUN-001" in result.stderr)
            expect(good, setting, at, result.returncode, result.stderr)


@test
def compiled_kernels_that_are_damaged_or_not_kept_are_compiled_again(folder):
    path = os.path.join(EXAMPLES, "linear", "linear.sexp")
    cache = os.path.join(folder, "cache", "sexpgpu", "cubins")
    train_here = lambda name, env: train(path, f"{folder}/{name}", "--steps", 2, "--deterministic", env=env)
    own = {"XDG_CACHE_HOME": os.path.join(folder, "cache")}
    whole = train_here("first", own)
    names = [os.path.join(top, name) for top, _, files in os.walk(cache) for name in files]
    expect(len(names) > 2, names)
    for i, name in enumerate(names):
        with open(name, "r+b") as f:
            raw = f.read()
            f.seek(len(raw) // 2 if i % 3 else 0)
            f.truncate(0 if i % 3 == 2 else len(raw))
            f.write(b"damaged" if i % 3 < 2 else b"")
    same(whole, train_here("damaged", own))
    same(whole, train_here("nowhere", {"XDG_CACHE_HOME": "/proc/nowhere"}))
    locked = write(folder, "no-directory", "")
    same(whole, train_here("file", {"XDG_CACHE_HOME": locked}))


main_simulated()
