"""Simulated machines that train on CUDA: a card, settings of the simulator, a cache of its own."""
import json, os, subprocess, tempfile

import numpy

from harness import BUILD, ROOT, RUN, environment, expect, main, steady

SIMULATOR = os.path.join(ROOT, "tests", "cudasim", "run")
EVALUATE, CHOICES, CHECKPOINT, EXPLAIN = (os.path.join(BUILD, "bin", "sexpgpu-" + name)
                                           for name in ("evaluate", "choices", "checkpoint", "explain"))
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


def main_simulated():
    """The tests, or in one line why there are none."""
    if subprocess.run([SIMULATOR, "--build", BUILD, "--", "true"], capture_output=True).returncode == 77:
        print("skipped: there is no simulated CUDA in this build\n0 passed, 0 failed")
    else:
        main()
