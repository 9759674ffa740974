#!/usr/bin/env python3
"""The tools in pipelines, as a person types them; what comes out is compared byte for byte."""
import os, shutil, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import object_storage
from harness import *

DIGITS = os.path.join(EXAMPLES, "digits")
CARD = "compute_80 with 108 multiprocessors, cuBLAS 130101, cuDNN 91300, NVRTC 13.0, patterns on"


def shell(folder, line, status=0, env=None):
    """Output of a line that bash runs in `folder`, with the tools in its PATH and a home of its own."""
    env = environment({"PATH": os.path.join(BUILD, "bin") + ":" + os.environ["PATH"], "HOME": folder, **(env or {})})
    result = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=folder, env=env, capture_output=True, text=True)
    expect(result.returncode == status, f"exit {result.returncode} of", line, result.stdout[:300], result.stderr[:600])
    return result.stdout


def experiment(folder):
    for name in os.listdir(DIGITS):
        shutil.copy(os.path.join(DIGITS, name), folder)
    os.rename(os.path.join(folder, "digits.sexp"), os.path.join(folder, "exp.sexp"))


def values(text):
    return "".join(line + "\n" for line in text.splitlines() if json.loads(line)["record"] == "value")


@test
def a_store_exported_into_a_run(folder):
    experiment(folder)
    rows = [{"record": "choices", "version": 1, "device": CARD},
            {"record": "choice", "kind": "recompute", "key": "device", "value": 10.99}]
    with open(os.path.join(folder, "store.jsonl"), "w") as f:
        f.write("".join(json.dumps(row) + "\n" for row in rows))
    shell(folder, "sexpgpu-choices import store.jsonl 2> words")
    alone = shell(folder, "sexpgpu-run exp.sexp --steps 5 --metrics stdout --quiet")
    pinned = shell(folder, "sexpgpu-choices export | sexpgpu-run exp.sexp --steps 5 --choices - --metrics stdout --quiet")
    expect(values(pinned) == values(alone) != "")
    expect(any("the record is of " + CARD in line for line in pinned.splitlines()), pinned[:2000])


@test
def choices_of_two_checkpoints_compared(folder):
    experiment(folder)
    shell(folder, "for i in a b; do sexpgpu-run exp.sexp --steps 5 --checkpoint-dir $i --quiet; done")
    same = shell(folder, "sexpgpu-checkpoint choices a/step-5 | sexpgpu-choices diff - b/step-5")
    expect(same == shell(folder, "sexpgpu-choices diff a/step-5 b/step-5"), same)
    shell(folder, "sexpgpu-run exp.sexp --steps 5 --checkpoint-dir c --quiet --deterministic")
    found = shell(folder, "sexpgpu-checkpoint choices a/step-5 | sexpgpu-choices diff - c/step-5", status=1)
    expect(found.splitlines()[0].split() == ["strict", "differs", "false", "|", "true"], found)


@test
def digests_against_those_of_another_machine(folder):
    experiment(folder)
    line = "sexpgpu-run exp.sexp --steps 20 --digest every=10 --metrics stdout --quiet"
    shell(folder, f"{line} --threads 1 | grep '\"digest/' > expected.jsonl")
    expect(shell(folder, f"{line} --threads 3 | grep '\"digest/' | diff - expected.jsonl") == "")
    expect(shell(folder, f"{line} --set lr=0.011 | grep '\"digest/' | diff - expected.jsonl", status=1).count("\n") > 4)


@test
def the_best_of_a_runs_checkpoints(folder):
    experiment(folder)
    shell(folder, "sexpgpu-run exp.sexp --steps 150 --checkpoint-dir runs/tiny --quiet --metrics jsonl:m.jsonl")
    best = shell(folder, "sexpgpu-evaluate runs/tiny --eval held-out --metrics stdout --quiet | "
                         "jq -c -s 'map(select(.record == \"value\" and .name == \"eval/held-out/loss\")) | min_by(.value)'")
    with open(os.path.join(folder, "m.jsonl")) as f:
        inline = [r for r in records(f.read()) if r.get("name") == "eval/held-out/loss"]
    steps = {int(s.split("-")[1]) for s in os.listdir(os.path.join(folder, "runs", "tiny"))}
    expect(json.loads(best) == min((r for r in inline if r["step"] in steps), key=lambda r: r["value"]), best, steps)


@test
def choices_of_a_checkpoint_in_a_bucket_into_a_run(folder):
    if not STORAGE:
        return
    experiment(folder)
    env = object_storage.roles(STORAGE)
    place = f"s3://{object_storage.BUCKETS['checkpoint']}/run"
    shell(folder, f"sexpgpu-run exp.sexp --steps 5 --checkpoint-dir {place} --quiet", env=env)
    alone = shell(folder, "sexpgpu-run exp.sexp --steps 5 --metrics stdout --quiet | jq -c 'select(.record == \"value\")'")
    found = shell(folder, f"sexpgpu-checkpoint choices {place}/step-5 | sexpgpu-run exp.sexp --steps 5 --choices - --metrics "
                          "stdout --quiet | jq -c 'select(.record == \"value\")'", env=env)
    expect(found == alone != "", found)
    expect(shell(folder, f"sexpgpu-run exp.sexp --steps 5 --choices {place}/step-5 --metrics stdout --quiet | "
                         "jq -c 'select(.record == \"value\")'", env=env) == alone)
    shell(folder, f"sexpgpu-run exp.sexp --steps 5 --checkpoint-dir b --quiet && sexpgpu-checkpoint choices {place}/step-5 | "
                  "sexpgpu-choices diff - b/step-5", env=env)


REASON = object_storage.swift.why_not(object_storage.SERVERS)
if REASON:
    print(f"skipped: the pipeline from a bucket has no server: {REASON}")
STORAGE = None if REASON else object_storage.need_server()
main()
