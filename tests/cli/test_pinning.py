#!/usr/bin/env python3
"""--choices on a CPU: a record is taken, refused with all that cannot be taken, or read as of another device; and what
the determinism line says of each."""
import os, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *

DIGITS = os.path.join(EXAMPLES, "digits", "digits.sexp")
EVALUATE = os.path.join(BUILD, "bin", "sexpgpu-evaluate")
CHECKPOINT = os.path.join(BUILD, "bin", "sexpgpu-checkpoint")
CHOICES = os.path.join(BUILD, "bin", "sexpgpu-choices")
CARD = "compute_80 with 108 multiprocessors, cuBLAS 130101, cuDNN 91300, NVRTC 13.0, patterns on"
CPU = "2: any CPU repeats these bits with no record (numerics 1)"
OTHER = f"3: pinned to choices of another device; the record is of {CARD}, this device is cpu, numerics 1"


def record(folder, name, **members):
    choices = {"device": CARD, "strict": False, "stacking": 1, "recompute": 10.99, "convolutions": {}, "products": {},
               "node_gradients": None, "numerics": 1, **members}
    path = os.path.join(folder, name)
    with open(path, "w") as f:
        json.dump(choices, f)
    return path


def run(*arguments, **options):
    return tool(DIGITS, "--steps", 6, *arguments, **options)


def level(result):
    expect(result.returncode == 0, result.stderr)
    lines = [line for line in result.stderr.splitlines() if line.startswith("determinism")]
    expect(len(lines) == 1, result.stderr)
    return lines[0][len("determinism         "):]


def lowering(result):
    return next(r for r in records(result.stdout) if r.get("name") == "lowering")


@test
def a_run_pinned_to_a_cpus_record_is_at_level_2_with_its_bits(folder):
    out = os.path.join(folder, "out")
    first = run("--checkpoint-dir", out, "--metrics", "stdout")
    for named in (f"{out}/step-6", f"{out}/step-6/experiment.json"):
        second = run("--choices", named, "--metrics", "stdout")
        expect(level(second) == CPU and steady(second.stdout).split("\n")[1:] ==
               [line for line in steady(first.stdout).split("\n")[1:] if '"checkpoint"' not in line], second.stderr)
    expect(level(run(env={"SEXPGPU_CHOICES": f"{out}/step-6"})) == CPU)


@test
def records_are_taken_from_files_pipes_and_annotations(folder):
    path = record(folder, "gpu.json")
    with open(path) as f:
        text = f.read()
    expect(level(run("--choices", path)) == OTHER)
    expect(level(run("--choices", "-", stdin=text)) == OTHER)
    annotation = json.dumps({"record": "annotation", "run": "x", "name": "lowering", "step": 0, "text": "",
                             "metadata": {"choices": json.loads(text), "device": CARD}})
    expect(level(run("--choices", "-", stdin=annotation + "\n")) == OTHER)
    stream = (json.dumps({"record": "choices", "version": 1, "device": CARD}) + "\n" +
              json.dumps({"record": "choice", "kind": "stacking", "key": "graph sha256:" + "0" * 64 + " candidates 1 4",
                          "value": 4}) + "\n")
    expect(level(run("--choices", "-", stdin=stream)) == OTHER, "the stacking of another graph is not this run's")
    own = lowering(run("--metrics", "stdout"))["metadata"]["choices"]["graph"]
    expect_failure(run("--choices", "-", stdin=stream.replace("sha256:" + "0" * 64, own)), 3, "E-CHOICE-001", "stacking")


@test
def a_record_that_cannot_be_taken_is_refused_whole_before_the_first_step(folder):
    path = record(folder, "gpu.json", stacking=4, node_gradients="bf16")
    out, metrics = os.path.join(folder, "out"), os.path.join(folder, "m.jsonl")
    result = run("--choices", path, "--checkpoint-dir", out, "--metrics", f"jsonl:{metrics}", "--status", f"{folder}/status")
    expect_failure(result, 3, "E-CHOICE-001: 2 of 2 recorded choices cannot be taken", "stacking        recorded  4",
                   "computes unstacked: 1", "node_gradients  recorded  bf16", CARD, "cpu, numerics 1", "--choices fresh")
    expect(not os.path.exists(metrics) and not os.listdir(out))
    with open(f"{folder}/status") as f:
        expect(json.load(f)["state"] == "failed")
    expect(level(run("--choices", "fresh")) == CPU)


@test
def a_refusal_as_json(folder):
    path = record(folder, "gpu.json", stacking=4, node_gradients="bf16")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SEXPGPU_")}
    result = subprocess.run([os.path.join(BUILD, "bin", "sexpgpu-explain"), DIGITS, "--json", "--choices", path],
                            capture_output=True, text=True, env=clean)
    expect_failure(result, 3, "E-CHOICE-001")
    found = json.loads(result.stdout)
    expect(schema_errors("choices-refusal.json", [found]) == [], schema_errors("choices-refusal.json", [found]))
    expect(found["record"] == CARD and found["device"] == "cpu, numerics 1" and found["fresh"] == ["node_gradients", "stacking"], found)
    expect([(r["kind"], r["recorded"]) for r in found["refused"]] == [("node_gradients", "bf16"), ("stacking", "4")], found)


@test
def a_resume_takes_its_checkpoints_choices(folder):
    out = os.path.join(folder, "out")
    run("--checkpoint-dir", out)
    more = ("--steps", 8, "--checkpoint-dir", out, "--resume", "latest")
    expect(level(tool(DIGITS, *more)) == CPU)
    expect(level(tool(DIGITS, *more, "--choices", "fresh")) == CPU, "a CPU has nothing to choose again")
    expect(level(tool(DIGITS, *more, "--choices", record(folder, "gpu.json"))) == OTHER)


@test
def a_resume_of_another_devices_checkpoint(folder):
    from checkpoints import sealed
    out = os.path.join(folder, "out")
    run("--checkpoint-dir", out)
    place = os.path.join(out, "step-6", "experiment.json")
    with open(place) as f:
        experiment = json.load(f)
    experiment.pop("seal")
    for stacking, words in ((1, OTHER), (4, None)):
        with open(record(folder, "gpu.json", stacking=stacking)) as f:
            experiment["choices"] = json.load(f)
        with open(place, "wb") as f:
            f.write(sealed(experiment))
        more = ("--steps", 8, "--resume", f"{out}/step-6")
        if words:
            expect(level(tool(DIGITS, *more)) == words)
        else:
            expect_failure(tool(DIGITS, *more), 3, "E-CHOICE-001", "stacking", "recorded  4")
        again = f"3: chosen again on this machine; the steps before it were computed with choices of {CARD}"
        expect(level(tool(DIGITS, *more, "--choices", "fresh")) == again)
        expect(level(tool(DIGITS, *more, "--deterministic")) == again + ", --deterministic")


@test
def what_contradicts_or_is_no_record_is_refused_by_code(folder):
    path = record(folder, "gpu.json")
    two = "".join(json.dumps({"record": "choices", "version": 1, "device": device}) + "\n" +
                  json.dumps({"record": "choice", "kind": "recompute", "key": "device", "value": 9}) + "\n"
                  for device in (CARD, CARD.replace("80", "90")))
    cases = [
        (("--choices", path, "--deterministic"), {}, None, 3, "E-CHOICE-002"),
        (("--deterministic",), {"SEXPGPU_NODE_GRADIENTS": "bf16"}, None, 3, "E-CHOICE-002"),
        ((), {"SEXPGPU_NODE_GRADIENTS": "f64"}, None, 2, "E-ENV-001"),
        (("--choices", "fresh:engines"), {}, None, 2, "E-CHOICE-022"),
        (("--choices", f"{folder}/none.json"), {}, None, 4, "E-CHOICE-008"),
        (("--choices", "-"), {}, "{", 2, "E-CHOICE-004"),
        (("--choices", "-"), {}, "{}", 2, "E-CHOICE-007"),
        (("--choices", "-"), {}, two, 2, "E-CHOICE-006"),
        (("--choices", "-"), {}, json.dumps({"record": "choices", "version": 99, "device": CARD}), 2, "E-CHOICE-005"),
        (("--choices", "s3://bucket/run/step-6"), {}, None, 2, "E-S3-020"),
    ]
    for arguments, env, stdin, status, code in cases:
        env = {"AWS_ACCESS_KEY_ID": "", **env} if "s3://" in str(arguments) else env
        env = {k: v for k, v in env.items() if v}
        expect_failure(run(*arguments, env=env, stdin=stdin), status, code)
    both = run("--choices", "-", stdin=two)
    expect("sexpgpu-choices export --device" in both.stderr, both.stderr)
    expect(level(run(env={"SEXPGPU_NODE_GRADIENTS": "f32"})) == CPU)


def evaluate(*arguments, stdin=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SEXPGPU_")}
    return subprocess.run([EVALUATE, *map(str, arguments), "--root", os.path.join(EXAMPLES, "digits")], capture_output=True,
                          text=True, env=clean, input=stdin)


@test
def an_evaluation_takes_a_record_and_needs_none_of_its_stacking(folder):
    out = os.path.join(folder, "out")
    run("--checkpoint-dir", out)
    expect(level(evaluate(out)) == CPU)
    expect(level(evaluate(out, "--choices", f"{out}/step-6")) == CPU)
    expect(level(evaluate(out, "--choices", record(folder, "gpu.json", stacking=4))) == OTHER)
    expect(level(evaluate(out, "--choices", "fresh")) == CPU)
    expect_failure(evaluate(out, "--choices", record(folder, "gpu.json"), "--deterministic"), 3, "E-CHOICE-002")
    expect_failure(evaluate(out, "--choices", "-", stdin="["), 2, "E-CHOICE-004")


@test
def the_choices_of_a_checkpoint_through_a_pipe(folder):
    out = os.path.join(folder, "out")
    run("--checkpoint-dir", out)
    text = subprocess.run([CHECKPOINT, "choices", f"{out}/step-6"], capture_output=True, text=True, check=True).stdout
    expect(level(run("--choices", "-", stdin=text)) == CPU)


@test
def the_export_of_a_store_through_a_pipe(folder):
    env = {"XDG_CACHE_HOME": os.path.join(folder, "cache")}
    stream = "".join(json.dumps(line) + "\n" for line in (
        {"record": "choices", "version": 1, "device": CARD},
        {"record": "choice", "kind": "stacking", "key": "graph sha256:" + "0" * 64 + " candidates 1 4", "value": 4}))
    subprocess.run([CHOICES, "import"], input=stream, text=True, check=True, capture_output=True, env={**os.environ, **env})
    text = subprocess.run([CHOICES, "export"], capture_output=True, text=True, check=True, env={**os.environ, **env}).stdout
    expect(level(run("--choices", "-", stdin=text)) == OTHER)
    empty = subprocess.run([CHOICES, "export"], capture_output=True, text=True, check=True,
                           env={**os.environ, "XDG_CACHE_HOME": os.path.join(folder, "none")}).stdout
    result = run("--choices", "-", stdin=empty)
    expect(level(result) == CPU, result.stderr)


main()
