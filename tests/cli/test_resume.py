#!/usr/bin/env python3
"""Resuming: the run that stopped and went on has the bits of the one that did not, and a resume with something else
is refused with both values."""
import hashlib, os, re, shutil, signal, subprocess, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *

OPTIMIZERS = ["(sgd :lr 0.05)", "(momentum :lr 0.05 :momentum 0.9)", "(adam :lr 0.01)",
              "(adamw :lr 0.01 :weight-decay 0.1)", "(lion :lr 0.001)", "(adafactor :lr 0.01)", "(muon :lr 0.01 :other (adam :lr 0.01))",
              '(lambda (p g) (- p (* 0.1 (state "ema" p (lambda (m) (+ (* 0.9 m) (* 0.1 g)))))))']
MODEL = """(defdata d :source (csv "points.csv" :fields ((x [3] f32) (y f32))) :order {order} :records (0 37))
(defdata e :source (csv "points.csv" :fields ((x [3] f32) (y f32))) :order sequential :records (5 29))
(defun dense (x n in out) (scope n (+ (matmul x (param "w" [in out] :init (glorot shape))) (param "b" [out] :init (zeros shape)))))
(defun model (x) (reshape (dense (dropout (tanh (dense x "a" 3 8)) :p 0.25) "b" 8 1) [(dim x 0)]))
(defrun r :seed 5 {data} :optimizer {optimizer} :clip 1.0 :checkpoint-every 4
  :loss (mse (+ (model x) (* 0.01 (normal [(dim x 0)] :salt [:step :microbatch :records :stage-records]))) y)
  :diagnostics ("grad/*") :diagnostics-every 3)
(defeval held :run r :every 4 :data e :batch 10 :metrics (("loss" (mse (model x) y)) ("worst" (reduce-max (abs (- (model x) y))) :reduce max)))"""
ONE = ":data d :batch 5 :microbatches 3 :steps 20"
STAGES = ':batch 5 :microbatches 3 :stages ((stage "short" :steps 7 :data d) (stage "long" :steps 13 :data e :batch 3))'


def experiment(folder, optimizer=OPTIMIZERS[2], order="shuffled", data=ONE, name="exp.sexp"):
    rows = [f"{i * 7 % 11 / 5},{i * 5 % 13 / 7},{i * 3 % 17 / 9},{i % 6 / 3}" for i in range(41)]
    with open(os.path.join(folder, "points.csv"), "w") as f:
        f.write("\n".join(rows) + "\n")
    path = os.path.join(folder, name)
    with open(path, "w") as f:
        f.write(MODEL.format(order=order, optimizer=optimizer, data=data))
    return path


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def digest(location, step):
    return json.loads(read(os.path.join(location, f"step-{step}", "experiment.json")))["digest"]


def values(text):
    return [line for line in text.splitlines() if json.loads(line)["record"] in ("value", "digest")]


def whole(folder, path, steps=20, *flags):
    out = os.path.join(folder, "whole")
    result = tool(path, "--quiet", "--checkpoint-dir", out, "--metrics", f"jsonl:{out}.jsonl", "--digest", "every=1", *flags)
    expect(result.returncode == 0, result.stderr)
    return digest(out, steps), values(read(out + ".jsonl"))


def resumed(folder, path, at, steps=20, first=(), second=()):
    """The run killed after the checkpoint of step `at`, its later records still in the file, and gone on with."""
    out = os.path.join(folder, f"parts-{at}")
    shutil.copytree(os.path.join(folder, "whole"), out)
    for entry in os.listdir(out):
        if int(entry.split("-")[1]) > at:
            shutil.rmtree(os.path.join(out, entry))
    lines = read(os.path.join(folder, "whole.jsonl")).splitlines(keepends=True)
    keep = [n for n, line in enumerate(lines) if json.loads(line).get("step", 0) <= at + 2]
    with open(out + ".jsonl", "w") as f:
        f.write("".join(lines[n] for n in keep) + '{"record": "val')
    result = tool(path, "--quiet", "--checkpoint-dir", out, "--metrics", f"jsonl:{out}.jsonl", "--digest", "every=1",
                  "--resume", "latest", *second)
    expect(result.returncode == 0, result.stderr)
    return digest(out, steps), values(read(out + ".jsonl"))


def ers(folder, path, at, second=()):
    a, b = whole(folder, path), resumed(folder, path, at, second=second)
    expect(a[0] == b[0], "digests", a[0], b[0])
    for x, y in zip(a[1], b[1]):
        expect(x == y, "\n" + x, "\n" + y)
    expect(len(a[1]) == len(b[1]), len(a[1]), len(b[1]))


@test
def stop_and_resume_equals_uninterrupted_for_every_optimizer(folder):
    for i, optimizer in enumerate(OPTIMIZERS):
        sub = os.path.join(folder, str(i))
        os.mkdir(sub)
        ers(sub, experiment(sub, optimizer), 8)


@test
def a_resume_in_the_middle_of_an_epoch_and_of_a_stage(folder):
    for i, (order, data, at) in enumerate([("sequential", ONE, 4), ("shuffled", ONE, 12), ("shuffled", STAGES, 4),
                                           ("sequential", STAGES, 8), ("shuffled", STAGES, 16)]):
        sub = os.path.join(folder, str(i))
        os.mkdir(sub)
        ers(sub, experiment(sub, order=order, data=data), at)


@test
def a_resume_at_other_thread_counts_and_without_the_optimizer_of_graphs(folder):
    path = experiment(folder)
    a = whole(folder, path, 20, "--threads", "1")
    b = resumed(folder, path, 8, second=("--threads", "3"))
    expect(a == b)


@test
def the_examples_stopped_between_equal_the_examples(folder):
    names = ["linear", "digits"] if QUICK else ["linear", "digits", "fashion", "king-james"]
    subprocess.run(["sh", os.path.join(EXAMPLES, "king-james", "make-text.sh")], check=True)
    for name in names:
        path, out = os.path.join(EXAMPLES, name, f"{name}.sexp"), os.path.join(folder, name)
        one = tool(path, "--quiet", "--steps", 20, "--checkpoint-dir", out + "-1", "--metrics", "stdout")
        tool(path, "--quiet", "--steps", 10, "--checkpoint-dir", out + "-2")
        two = tool(path, "--quiet", "--steps", 20, "--checkpoint-dir", out + "-2", "--resume", "latest", "--metrics",
                   "stdout", "--threads", 3)
        expect(two.returncode == 0, two.stderr)
        expect(digest(out + "-1", 20) == digest(out + "-2", 20), name)
        late = [line for line in values(one.stdout) if json.loads(line)["step"] > 10]
        expect(late == values(two.stdout), name)


@test
def a_signal_then_a_resume(folder):
    path = experiment(folder, data=":data d :batch 5 :microbatches 3 :steps 1000000")
    out = os.path.join(folder, "out")
    process = subprocess.Popen([RUN, path, "--quiet", "--checkpoint-dir", out, "--metrics", f"jsonl:{out}.jsonl"],
                               stderr=subprocess.DEVNULL)
    while not os.path.isdir(os.path.join(out, "step-8")):
        expect(process.poll() is None, "the run ended early")
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    expect(process.wait(timeout=60) == 128 + signal.SIGTERM)
    stopped = max(int(s.split("-")[1]) for s in os.listdir(out))
    result = tool(path, "--quiet", "--steps", stopped + 5, "--checkpoint-dir", out, "--resume", "latest", "--metrics",
                  f"jsonl:{out}.jsonl")
    expect(result.returncode == 0, result.stderr)
    straight = tool(path, "--quiet", "--steps", stopped + 5, "--checkpoint-dir", out + "2", "--metrics", "stdout")
    expect(digest(out, stopped + 5) == digest(out + "2", stopped + 5))
    steps = [json.loads(line)["step"] for line in values(read(out + ".jsonl")) if '"train/loss"' in line]
    expect(steps == list(range(1, stopped + 6)), "a step is missing or twice")
    names = [json.loads(line).get("name") for line in read(out + ".jsonl").splitlines()]
    expect(names.count("resumed from") == 1 and names.count("stopped") == 1 and names.count("lowering") == 1)


@test
def what_differs_is_refused_with_both_values(folder):
    path = experiment(folder)
    whole(folder, path)
    at = os.path.join(folder, "whole", "step-8")
    expect(tool(path, "--quiet", "--resume", at, "--steps", 9).returncode == 0)
    other = experiment(folder, name="other.sexp", optimizer="(sgd :lr 0.5)")
    expect_failure(tool(other, "--resume", at), 2, "E-CKPT-040", "sha256:")
    knob = os.path.join(folder, "knob.sexp")
    with open(knob, "w") as f:
        f.write('(defknob lr 0.5) (defknob s 3)\n(defrun a :seed s :steps 4 :loss (let ((w (param "w" [] :init 1))) (* w w)) '
                ":optimizer (sgd :lr lr))\n(defrun b :seed 3 :steps 4 :loss (param \"w\" [] :init 1) :optimizer (sgd :lr lr))")
    out = os.path.join(folder, "knob")
    expect(tool(knob, "--run", "a", "--quiet", "--checkpoint-dir", out).returncode == 0)
    step = os.path.join(out, "step-4")
    expect_failure(tool(knob, "--run", "a", "--resume", step, "--set", "lr=0.25"), 2, "E-CKPT-041", "0.5", "0.25")
    expect_failure(tool(knob, "--run", "b", "--resume", step), 2, "E-CKPT-041", "checkpoint has a, this is b")
    expect_failure(tool(knob, "--run", "a", "--resume", step, "--steps", 3), 2, "E-RUN-006", "step 4", "3 steps")
    text = ("--run", "a", "--quiet", "--checkpoint-dir", out, "--set", "note=a\n\"b\"\x7f\u00e9", "--resume")
    with open(knob, "a") as f:
        f.write('(defknob note "plain")')
    expect(tool(knob, *text[:-1]).returncode == 0)
    again = tool(knob, *text, step, "--steps", 5)
    expect(again.returncode == 0, again.stderr)
    with open(os.path.join(folder, "points.csv"), "a") as f:
        f.write("1,2,3,4\n")
    expect_failure(tool(path, "--resume", at), 2, "E-CKPT-043", "data d", "bytes")


@test
def weights_that_changed_are_refused_and_the_same_bytes_elsewhere_are_not(folder):
    path = experiment(folder)
    whole(folder, path)
    weights = os.path.join(folder, "w.safetensors")
    shutil.copy(os.path.join(folder, "whole", "step-8", "parameters.safetensors"), weights)
    load = os.path.join(folder, "load.sexp")
    with open(load, "w") as f:
        f.write('(defknob file "w.safetensors")\n(defrun r :seed 1 :steps 6 :loss (let ((w (param "w" [8 1] :load (weights file "b/w"))))'
                " (sum (* w w))) :optimizer (sgd :lr 0.1))")
    out = os.path.join(folder, "load")
    expect(tool(load, "--quiet", "--steps", 3, "--checkpoint-dir", out).returncode == 0)
    shutil.copy(os.path.join(folder, "whole", "step-12", "parameters.safetensors"), weights)
    expect_failure(tool(load, "--checkpoint-dir", out, "--resume", "latest"), 2, "E-LOAD-001", "b/w", "sha256:")
    os.makedirs(os.path.join(folder, "moved"))
    shutil.copy(os.path.join(folder, "whole", "step-8", "parameters.safetensors"), os.path.join(folder, "moved", "w.safetensors"))
    shutil.copy(load, os.path.join(folder, "moved", "load.sexp"))
    result = tool(os.path.join(folder, "moved", "load.sexp"), "--quiet", "--checkpoint-dir", out, "--resume", "latest",
                  "--metrics", "stdout")
    expect(result.returncode == 0, result.stderr)


@test
def a_flipped_bit_is_found_and_torn_checkpoints_are_skipped_with_a_word(folder):
    path = experiment(folder)
    whole(folder, path)
    out = os.path.join(folder, "whole")
    os.makedirs(os.path.join(out, "step-24"))
    shutil.rmtree(os.path.join(out, "step-20"))
    result = tool(path, "--checkpoint-dir", out, "--resume", "latest")
    expect(result.returncode == 0 and "step-24 is torn, not used" in result.stderr, result.stderr)
    for name in ("parameters.safetensors", "states.safetensors", "experiment.json"):
        broken = os.path.join(folder, "broken")
        shutil.copytree(os.path.join(out, "step-8"), os.path.join(broken, "step-8"))
        with open(os.path.join(broken, "step-8", name), "r+b") as f:
            f.seek(os.path.getsize(f.name) // 2)
            byte = f.read(1)[0]
            f.seek(-1, 1)
            f.write(bytes([byte ^ 4]))
        expect_failure(tool(path, "--resume", os.path.join(broken, "step-8")), 2, "E-", "broken/step-8/")
        shutil.rmtree(broken)


@test
def other_training_graphs_are_refused(folder):
    path = experiment(folder)
    whole(folder, path)
    at = os.path.join(folder, "whole", "step-8", "experiment.json")
    text = re.sub('"identity": "sha256:....', '"identity": "sha256:0123', read(at))
    begin = text.index(',\n  "seal"')
    seal = hashlib.sha256(text[:begin].encode()).hexdigest()
    with open(at, "w", encoding="utf-8") as f:
        f.write(re.sub("sha256:[0-9a-f]{64}", "sha256:" + seal, text[begin:]).join([text[:begin], ""]))
    expect_failure(tool(path, "--resume", os.path.dirname(at)), 2, "E-CKPT-042", "sha256:0123")


@test
def latest_needs_a_place_with_a_checkpoint(folder):
    path = experiment(folder)
    expect_failure(tool(path, "--resume", "latest"), 2, "E-CKPT-044", "--checkpoint-dir")
    expect_failure(tool(path, "--resume", "latest", "--checkpoint-dir", os.path.join(folder, "none")), 2, "E-CKPT-015")
    expect_failure(tool(path, "--resume", os.path.join(folder, "none")), 2, "E-CKPT-007", "none")


@test
def a_run_that_was_done_has_nothing_left_to_do(folder):
    path = experiment(folder)
    before = whole(folder, path)
    out = os.path.join(folder, "whole")
    result = tool(path, "--checkpoint-dir", out, "--resume", "latest", "--metrics", f"jsonl:{out}.jsonl", env={})
    expect(result.returncode == 0, result.stderr)
    expect((digest(out, 20), values(read(out + ".jsonl"))) == before)


main()
