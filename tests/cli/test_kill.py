#!/usr/bin/env python3
"""Runs that are killed at random moments, most of them in the middle of a checkpoint's write, and go on from the latest
checkpoint each time: no torn one is taken, nothing is left behind, the metrics have no gap and no record twice, and the
last digest is that of the run that nobody killed."""
import os, random, re, subprocess, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *

KILLS = 25 if QUICK else 200
CHECKPOINT = os.path.join(BUILD, "bin", "sexpgpu-checkpoint")
EXPERIMENT = """(defrun r :seed 7 :steps 1000000 :checkpoint-every 1 :checkpoint-keep 3
  :loss (let ((w (param "w" [256 1024] :init (glorot shape))))
          (mean (* w (+ w (* 0.01 (normal [256 1024] :salt :step))))))
  :optimizer (adam :lr 0.01))
"""  # 3 MiB a checkpoint, in two files
LIFE_S = 0.12  # how long a process lives after its first checkpoint, at most


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def experiment(folder):
    path = os.path.join(folder, "exp.sexp")
    with open(path, "w", encoding="utf-8") as f:
        f.write(EXPERIMENT)
    return path


def steps_of(place):
    return sorted(int(m.group(1)) for n in os.listdir(place) for m in [re.fullmatch(r"step-(\d+)", n)] if m)


def verify(place, steps):
    paths = [os.path.join(place, f"step-{n}") for n in steps]
    result = subprocess.run([CHECKPOINT, "verify", *paths], capture_output=True, text=True)
    expect(result.returncode == 0, result.stdout, result.stderr)


def digest(place, step):
    return json.loads(read(os.path.join(place, f"step-{step}", "experiment.json")))["digest"]


def check_metrics(text, last):
    """One loss for each step up to the last, in order; a checkpoint annotation for each but the last few, in order."""
    lines = text[:text.rfind("\n") + 1].splitlines()
    stream = [json.loads(line) for line in lines]
    expect([r["record"] for r in stream].count("manifest") == 1, "manifests")
    losses = [r["step"] for r in stream if r.get("name") == "train/loss"]
    expect(losses == list(range(1, len(losses) + 1)) and len(losses) >= last, "losses", losses[-5:], last)
    written = [r["step"] for r in stream if r.get("name") == "checkpoint"]
    expect(written == list(range(1, len(written) + 1)), "checkpoints", written[-5:])
    expect(len(written) >= last - 1, "checkpoints", written[-3:], last)


def live(path, place, metrics, moment, resume):
    """One process, killed `moment` seconds after its first checkpoint; whether it had written, what it left unfinished."""
    arguments = [RUN, path, "--quiet", "--checkpoint-dir", place, "--metrics", f"jsonl:{metrics}", "--threads", "1"]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SEXPGPU_")}
    before = steps_of(place) if os.path.isdir(place) else []
    process = subprocess.Popen(arguments + (["--resume", "latest"] if resume else []), stderr=subprocess.PIPE, env=clean)
    if moment >= 0:  # below 0: after its start
        while process.poll() is None and not (os.path.isdir(place) and max(steps_of(place), default=0) > max(before, default=0)):
            time.sleep(0.001)
    time.sleep(abs(moment))
    process.kill()
    error = process.communicate()[1].decode()
    expect(process.returncode == -9, process.returncode, error)
    after = steps_of(place) if os.path.isdir(place) else []
    wrote = max(after, default=0) > max(before, default=0)
    left = [n for n in os.listdir(place) if not n.startswith("step-")] if os.path.isdir(place) else []
    if wrote:  # it swept up first: what lies there now is its own
        expect(all(f"-{process.pid}-" in n for n in left), left, process.pid)
    return wrote, left


@test
def a_run_killed_again_and_again_ends_as_the_one_that_was_not(folder):
    path, place, moments = experiment(folder), os.path.join(folder, "out"), random.Random(20)
    metrics = os.path.join(folder, "m.jsonl")
    hits = resumes = idle = 0
    for kill in range(KILLS):
        steps = steps_of(place) if os.path.isdir(place) else []
        moment = moments.uniform(0, LIFE_S) if moments.random() < 0.9 else -moments.uniform(0, 0.03)
        if not steps and os.path.exists(metrics):  # a run that begins anew tells of itself anew
            os.remove(metrics)
        wrote, left = live(path, place, metrics, moment, bool(steps))
        resumes += bool(steps)
        hits += bool(left) and wrote
        idle += not wrote
        before, steps = steps, steps_of(place) if os.path.isdir(place) else []
        if steps:
            verify(place, steps)  # each one that shows is whole
            # The three to keep, and one whose older sibling had still to go; more only where each life in a row was
            # ended between its first checkpoint and what that removes.
            pruned = not before or steps[-1] > before[-1] + 1
            expect(len(steps) <= (4 if pruned else max(4, len(before) + (steps[-1] - before[-1]))), before, steps)
            if os.path.exists(metrics) and kill % 10 == 9:
                check_metrics(read(metrics), steps[-1])
    last = steps_of(place)[-1] + 3
    result = tool(path, "--quiet", "--checkpoint-dir", place, "--metrics", f"jsonl:{metrics}", "--resume", "latest",
                  "--steps", last)
    expect(result.returncode == 0, result.stderr)
    check_metrics(read(metrics), last)
    expect(sorted(os.listdir(place)) == sorted(f"step-{n}" for n in (last - 2, last - 1, last)), os.listdir(place))
    verify(place, steps_of(place))
    reference = os.path.join(folder, "reference.sexp")
    with open(reference, "w", encoding="utf-8") as f:
        f.write(EXPERIMENT.replace(":checkpoint-every 1 :checkpoint-keep 3", ""))
    whole = tool(reference, "--quiet", "--checkpoint-dir", folder + "/whole", "--metrics", "stdout", "--steps", last)
    expect(whole.returncode == 0, whole.stderr)
    expect(digest(folder + "/whole", last) == digest(place, last))
    values = lambda text: [(r["name"], r["step"], r["bits"]) for r in records(text) if r["record"] == "value"]
    expect(values(whole.stdout) == values(read(metrics)))
    print(f"{KILLS} kills over {last} steps: {hits} during a write, {idle} before a first one; {resumes + 1} resumes")
    expect(hits > KILLS // 4, hits)


main()
