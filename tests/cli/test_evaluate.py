#!/usr/bin/env python3
"""Evaluating offline: the values of a run's checkpoints are the inline ones bit for bit, with nothing there but the
checkpoints and the data; watching; what is torn, damaged, removed; what is refused."""
import glob, os, shutil, signal, subprocess, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *
import checkpoints

EVALUATE = os.path.join(BUILD, "bin", "sexpgpu-evaluate")

# Knobs of each kind, includes beside and above, a variant, stages, states, draws, every counter, no data.
MAIN = """(include "../project/parts/model.sexp") (include "../shared/evals.sexp")
(defknob width 4) (defknob lr 0.1) (defknob name "points.csv") (defknob flag false) (defknob sizes [1 2]) (defknob kind f32)
(defknob extra 1.0) (defknob note "plain") (defknob words ["a" "b"]) (defvariant wide :width 7)
(defdata d :source (csv name :fields ((x [3] f32) (y f32))) :order shuffled :records (0 37))
(defdata e :source (csv name :fields ((x [3] f32) (y f32))) :order sequential :records (5 29))
(defrun r :seed 5 :optimizer (adam :lr lr) :checkpoint-every 3
  :stages ((stage "short" :steps 5 :data d :batch 4) (stage "long" :steps 7 :data e :batch 3 :microbatches 2))
  :loss (+ (* 0.0 (sum (cast (param "k" [2] :init (zeros shape)) f32))) (mse (model x) y)))
"""
PART = """(defun dense (x n in out) (scope n (+ (matmul x (param "w" [in out] :init (glorot shape))) (param "b" [out] :init (zeros shape)))))
(defun model (x) (* (if flag 2.0 1.0) (reshape (dense (tanh (dense x "a" 3 (* width (nth sizes 0)))) "b" (* width (nth sizes 0)) 1) [(dim x 0)])))
"""
EVALS = """(defeval held :run r :every 3 :data e :batch 10 :metrics (("loss" (mse (model x) y)) ("worst" (reduce-max (abs (- (model x) y))) :reduce max)))
(defeval noisy :run r :every 3 :data e :batch 10 :batches 2
  :metrics (("loss" (mse (+ (model x) (normal [(dim x 0)] :salt [:microbatch])) y)) ("scaled" (* (cast (input :step) f32) (mse (model x) y)))))
(defeval alone :run r :every 3 :batches 3
  :metrics (("records" (cast (input :records) f32)) ("stage" (cast (input :stage) f32)) ("stage-records" (cast (input :stage-records) f32))
            ("drawn" (mean (* (uniform [8] :salt [:step :microbatch]) extra)))))
"""
SETS = ["--set", "lr=0.05", "--set", 'name=poi"nts.csv', "--set", "flag=true", "--set", "sizes=[2 3]", "--set", "kind=bf16", "--set", "extra=2",
        "--set", r'note="\"q\\\n\u{7}"', "--set", r'words=["x y" "z\"w"]']


OTHER = MAIN.replace("../shared", "shared").replace("../project/", "")


def start(*arguments, env=None, cwd=None, program=EVALUATE):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SEXPGPU_", "AWS_")) and not k.lower().endswith("_proxy")}
    clean.update(env or {})
    return subprocess.Popen([program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean, cwd=cwd)


class Result:
    def __init__(self, process, timeout=300):
        self.stdout, self.stderr = process.communicate(timeout=timeout)
        self.returncode = process.returncode


def evaluate(*arguments, **options):
    return Result(start(*arguments, **options))


def good(result):
    expect(result.returncode == 0, result.returncode, result.stderr)
    return result


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    return path


def points(path):
    rows = [f"{i * 7 % 11 / 5},{i * 5 % 13 / 7},{i * 3 % 17 / 9},{i % 6 / 3}" for i in range(41)]
    return write(path, "\n".join(rows) + "\n")


def values(text):
    """(name, step) -> (value, bits) of the evaluations; each once."""
    found = {}
    for r in records(text):
        if r["record"] == "value" and r["name"].startswith("eval/"):
            expect((r["name"], r["step"]) not in found, "twice:", r)
            found[r["name"], r["step"]] = (r["value"], r["bits"])
    return found


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def valid(text):
    errors = schema_errors("metrics.json", records(text))
    expect(not errors, errors)
    return text


def train(folder, *flags, main=MAIN, name="exp.sexp"):
    """A run of all that, its files deleted after it: the inline values, and where checkpoints and data are."""
    source, box = os.path.join(folder, "source"), os.path.join(folder, "box")
    write(f"{source}/project/{name}", main)
    write(f"{source}/project/parts/model.sexp", PART)
    write(f"{source}/shared/evals.sexp", EVALS)
    points(f"{source}/project/points.csv"), points(f'{source}/project/poi"nts.csv')
    result = tool(f"{source}/project/{name}", "--quiet", "--checkpoint-dir", f"{box}/runs", "--metrics", "stdout", *flags)
    good(result)
    points(f"{box}/points.csv"), points(f'{box}/poi"nts.csv')
    shutil.rmtree(source)
    return values(result.stdout), box


def same(offline, inline, steps=(3, 6, 9, 12)):
    wanted = {k: v for k, v in inline.items() if k[1] in steps}
    expect(offline == wanted, "\n", sorted(offline.items()), "\n", sorted(wanted.items()))


def steps_of(text):
    return sorted({step for _, step in values(text)})


def reseal(checkpoint, **members):
    path = os.path.join(checkpoint, "experiment.json")
    experiment = json.loads(read(path))
    del experiment["seal"]
    experiment.update(members)
    with open(path, "wb") as f:
        f.write(checkpoints.sealed(experiment))


def flip(path, at=-1):
    with open(path, "r+b") as f:
        data = bytearray(f.read())
        data[at] ^= 1
        f.seek(0)
        f.write(data)


def wait_for(condition, process=None, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < until, "it did not come")
        expect(process is None or process.poll() is None, "it ended:", process and process.returncode)
        time.sleep(0.01)


# ---- values ----------------------------------------------------------------------------------------------

@test
def offline_equals_inline_with_nothing_but_checkpoints_and_data(folder):
    inline, box = train(folder, *SETS)
    expect(len(inline) == 4 * 8, len(inline))
    for threads in (1, 2, 5):
        result = good(evaluate("runs", "--metrics", "stdout", "--threads", threads, cwd=box))
        same(values(valid(result.stdout)), inline)
        expect(result.stderr.count("\nevaluation ") + result.stderr.startswith("evaluation") == 3, result.stderr)
        expect(result.stderr.count("experiment  ") == 1, "compiled once:", result.stderr)
    for env in ({"SEXPGPU_SIMD": "scalar"}, {"SEXPGPU_OPTIMIZE": "0"}):
        same(values(good(evaluate("runs", "--quiet", "--metrics", "stdout", cwd=box, env=env)).stdout), inline)
    elsewhere = os.path.join(folder, "elsewhere")
    os.mkdir(elsewhere)
    result = good(evaluate("../box/runs", "--root", "../box/", "--metrics", "stdout", cwd=elsewhere))
    same(values(result.stdout), inline)


@test
def variants_and_overrides_are_those_of_the_checkpoint(folder):
    inline, box = train(folder, "--variant", "wide", "--steps", 7, "--eval-every", 1, "--set", "sizes=(3 1)", "--diagnostics", "grad/*")
    watch = good(evaluate("runs", "--metrics", "stdout", "--watch", "--poll", 600, cwd=box))  # it knows its last step
    same(values(watch.stdout), inline, (3, 6, 7))


@test
def one_checkpoint_latest_ranges_and_names(folder):
    inline, box = train(folder)
    result = good(evaluate("runs/step-6", "-q", "--metrics", "stdout", "--eval", "held", "--eval", "alone", cwd=box))
    expect({n.split("/")[1] for n, _ in values(result.stdout)} == {"held", "alone"}, result.stdout)
    same(values(result.stdout), {k: v for k, v in inline.items() if "noisy" not in k[0]}, (6,))
    for name, steps in (("runs/latest", [12]), ("runs/step-9/", [9])):
        expect(steps_of(good(evaluate(name, "-q", "--metrics", "stdout", cwd=box)).stdout) == steps, name)
    for text, steps in (("4..9", [6, 9]), ("7..", [9, 12]), ("..6", [3, 6]), ("6", [6])):
        result = good(evaluate("runs", "-q", "--steps", text, "--metrics", "stdout", cwd=box))
        expect(steps_of(result.stdout) == steps, text, steps_of(result.stdout))
    os.rename(f"{box}/runs/step-9", f"{box}/best")
    expect(steps_of(good(evaluate("best", "-q", "--metrics", "stdout", cwd=box)).stdout) == [9])


@test
def loaded_weights_need_not_be_there(folder):
    inline, box = train(folder)
    write(f"{folder}/a/load.sexp", """(defrun r :seed 1 :steps 4 :checkpoint-every 2 :optimizer (sgd :lr 0.1)
  :loss (let ((w (param "w" [4 1] :load (weights "w.safetensors" "b/w")))) (sum (* w w))))
(defeval e :run r :every 2 :metrics (("norm" (sum (abs (param "w" [4 1] :load (weights "w.safetensors" "b/w")))))))""")
    shutil.copy(f"{box}/runs/step-3/parameters.safetensors", f"{folder}/a/w.safetensors")
    run = tool(f"{folder}/a/load.sexp", "-q", "--checkpoint-dir", f"{folder}/runs", "--metrics", "stdout")
    good(run)
    shutil.rmtree(f"{folder}/a")
    result = good(evaluate("runs", "-q", "--metrics", "stdout", cwd=folder))
    expect(values(valid(result.stdout)) == values(run.stdout) and len(values(run.stdout)) == 2, result.stdout)
    expect(result.stdout.splitlines()[0] == run.stdout.splitlines()[0], "the manifest is the run's")


@test
def the_examples_offline_equal_the_examples_inline(folder):
    names = {"digits": ("--eval-every", 250)}
    if os.environ.get("QUICK") != "small":
        names.update({"fashion": ("--steps", 2, "--eval-every", 2), "king-james": ("--steps", 2, "--eval-every", 2)})
    subprocess.run(["sh", os.path.join(EXAMPLES, "king-james", "make-text.sh")], check=True)
    for name, flags in names.items():
        runs, root = os.path.join(folder, name), os.path.join(EXAMPLES, name)
        inline = tool(os.path.join(root, name + ".sexp"), "--quiet", "--checkpoint-dir", runs, "--metrics", "stdout", *flags)
        expect(inline.returncode == 0, inline.stderr)
        offline = good(evaluate(runs, "--root", root, "--metrics", "stdout", "--threads", 3, cwd=folder))
        expect(values(offline.stdout) == values(inline.stdout) and values(offline.stdout), name)
        expect(valid(offline.stdout).splitlines()[0] == inline.stdout.splitlines()[0], name, "the manifest is the run's")
    result = tool(os.path.join(EXAMPLES, "linear", "linear.sexp"), "--quiet", "--checkpoint-dir", f"{folder}/linear")
    expect(result.returncode == 0, result.stderr)
    expect_failure(evaluate(f"{folder}/linear"), 2, "E-CKPT-053", "run linear has no evaluation", "--file")


# ---- what is told ----------------------------------------------------------------------------------------

@test
def records_say_what_was_evaluated_and_how(folder):
    inline, box = train(folder)
    result = good(evaluate("runs", "--deterministic", "--metrics", "stdout", cwd=box))
    lines = records(valid(result.stdout))
    expect([r["record"] for r in lines] == ["manifest"] + 4 * (8 * ["value"] + ["annotation"]))
    experiment = json.loads(read(f"{box}/runs/step-6/experiment.json"))
    note = next(r for r in lines if r["record"] == "annotation" and r["step"] == 6)
    expect(note["name"] == "evaluated offline on cpu, numerics 1" and note["run"] == experiment["slug"], note)
    expect(note["text"] == "determinism 2: any CPU repeats these bits with no record (numerics 1)", note)
    meta = note["metadata"]
    expect(list(meta) == sorted(meta) and meta["digest"] == experiment["digest"] and meta["checkpoint"] == "step-6", meta)
    expect(meta["evals"] == ["held", "noisy", "alone"] and meta["device"] == "cpu, numerics 1", meta)
    expect(meta["choices"] == {**experiment["choices"], "strict": True}, meta)
    expect(result.stderr.count("step-6   held/loss ") == 1 and "determinism         2: any CPU" in result.stderr, result.stderr)
    gpu = {"device": "compute_90 with 132 multiprocessors", "numerics": 1, "strict": False}
    reseal(f"{box}/runs/step-9", choices=gpu)
    result = good(evaluate("runs/step-9", "--metrics", "stdout", cwd=box))
    text = "determinism 3: the checkpoint's choices are of compute_90 with 132 multiprocessors, this is cpu, numerics 1"
    expect(records(valid(result.stdout))[-1]["text"] == text and "determinism         3: " in result.stderr, result.stderr)
    same(values(result.stdout), inline, (9,))


@test
def a_table_for_people(folder):
    inline, box = train(folder)
    result = good(evaluate("runs", "--eval", "held", cwd=box))
    rows = [line.split() for line in result.stdout.splitlines()]
    expect(rows[0] == ["step", "held/loss", "held/worst", "seconds"] and len({len(x) for x in result.stdout.splitlines()}) == 1, result.stdout)
    expect([r[0] for r in rows[1:]] == ["3", "6", "9", "12"], rows)
    expect(rows[2][1] == "%.6g" % inline["eval/held/loss", 6][0], rows[2])
    quiet = good(evaluate("runs", "--eval", "held", "-q", cwd=box))
    expect(quiet.stderr == "" and [line.split()[:3] for line in quiet.stdout.splitlines()] == [r[:3] for r in rows])
    silent = good(evaluate("runs", "-q", "--metrics", f"jsonl:{folder}/m.jsonl", cwd=box))
    expect(silent.stdout == silent.stderr == "", silent.stdout, silent.stderr)
    same(values(valid(read(f"{folder}/m.jsonl"))), inline)
    with open("/dev/full", "w") as full:
        process = subprocess.run([EVALUATE, "runs", "-q"], stdout=full, stderr=subprocess.PIPE, text=True, cwd=box)
    expect_failure(process, 4, "E-ENV-012")


@test
def the_pipeline_of_the_design(folder):
    inline, box = train(folder)
    shutil.move(f"{box}/runs", f"{box}/runs-tiny"), os.makedirs(f"{box}/runs"), shutil.move(f"{box}/runs-tiny", f"{box}/runs/tiny")
    line = "sexpgpu-evaluate runs/tiny --eval held --metrics stdout | jq -s 'map(select(.record == \"value\")) | min_by(.value)'"
    env = {**os.environ, "PATH": os.path.dirname(EVALUATE) + os.pathsep + os.environ["PATH"]}
    result = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, cwd=box, env=env)
    best = json.loads(result.stdout)
    least = min((v[0], k) for k, v in inline.items() if k[0].startswith("eval/held/"))
    expect((best["value"], (best["name"], best["step"])) == least, best, least)


@test
def only_what_the_metrics_lack(folder):
    inline, box = train(folder)
    target, file = f"jsonl:{folder}/m.jsonl", f"{folder}/m.jsonl"
    good(evaluate("runs", "-q", "--eval", "held", "--steps", "..6", "--metrics", target, cwd=box))
    first = read(file)
    result = good(evaluate("runs", "-v", "--eval", "held", "--steps", "..6", "--metrics", target, cwd=box))
    expect(read(file) == first and "step-3: recorded already" in result.stderr and "0 evaluated, 2 recorded before" in result.stderr, result.stderr)
    lines = first.splitlines(keepends=True)
    with open(file, "w") as f:  # the second value of step 3 and what follows were not written, the last line is torn
        f.write("".join(lines[:2]) + lines[2][:30])
    good(evaluate("runs", "-q", "--metrics", target, cwd=box))
    same(values(valid(read(file))), inline)
    expect([r["record"] for r in records(read(file))].count("manifest") == 1)
    whole = os.path.join(folder, "inline.jsonl")  # a run's own metrics count as well
    with open(whole, "w") as f:
        f.write(read(file))
    good(evaluate("runs", "-q", "--metrics", f"jsonl:{whole}", cwd=box))
    expect(read(whole) == read(file))


# ---- another file ------------------------------------------------------------------------------------------

@test
def another_experiment_file(folder):
    inline, box = train(folder, "--set", "width=5")
    other = f"{folder}/other"
    write(f"{other}/parts/model.sexp", PART)
    write(f"{other}/shared/evals.sexp", EVALS + '(defeval fresh :run r :data e :batch 7 :metrics (("absolute" (mean (abs (- (model x) y))))))')
    path = write(f"{other}/exp2.sexp", OTHER.replace("(adam :lr lr)", "(sgd :lr lr)"))
    points(f"{other}/points.csv")
    result = good(evaluate(f"{box}/runs", "--file", path, "--metrics", "stdout"))
    found, lines = values(valid(result.stdout)), records(result.stdout)
    same({k: v for k, v in found.items() if "fresh" not in k[0]}, inline)
    expect([k[1] for k in found if k[0] == "eval/fresh/absolute"] == [3, 6, 9, 12], found)
    slug = json.loads(read(f"{box}/runs/step-3/experiment.json"))["slug"]
    expect({r["run"] for r in lines} == {lines[0]["run"]} and lines[0]["run"].startswith(slug + "-"), lines[0]["run"])
    expect(lines[0]["file"]["name"] == "exp2.sexp" and lines[0]["file"]["text"] == read(path))
    meta = lines[-1]["metadata"]
    expect(meta["file"]["name"] == "exp2.sexp" and meta["file"]["sha256"] == checkpoints.sha256(read(path).encode()), meta)
    expect(meta["file"]["identity"] != meta["identity"] and meta["run"] == slug, meta)
    write(path, OTHER.replace('"k" [2]', '"k" [3]'))
    expect_failure(evaluate(f"{box}/runs", "--file", path), 2, "E-RUN-006", "parameter k is [2] in the checkpoint and [3]", "step-12: not evaluated")
    write(path, OTHER.replace('"k" [2]', '"kk" [2]'))
    expect_failure(evaluate(f"{box}/runs/step-3", "--file", path), 2, "E-RUN-006", "parameter k of the checkpoint is not in the experiment")
    expect_failure(evaluate(f"{box}/runs", "--file", path, "--root", other), 2, "E-ENV-002", "--root with --file")


# ---- what is wrong -----------------------------------------------------------------------------------------

@test
def damaged_and_torn_ones_do_not_stop_the_others(folder):
    inline, box = train(folder)
    runs = f"{box}/runs"
    flip(f"{runs}/step-6/parameters.safetensors")
    expect_failure(evaluate("runs/step-6", cwd=box), 1, "E-CKPT-012", "step-6")
    result = evaluate("runs", "--metrics", "stdout", cwd=box)
    expect_failure(result, 1, "E-CKPT-012", "3 evaluated, 0 recorded before, 1 failed")
    same(values(result.stdout), inline, (3, 9, 12))
    os.remove(f"{runs}/step-9/experiment.json")
    result = evaluate("runs", "--metrics", "stdout", "--steps", "9..", cwd=box)
    expect(result.returncode == 0 and "step-9 is torn, not used" in result.stderr, result.stderr)
    same(values(result.stdout), inline, (12,))
    expect("step-9" not in evaluate("runs/step-12", cwd=box).stderr)
    flip(f"{runs}/step-3/states.safetensors")
    expect_failure(evaluate("runs/step-3", cwd=box), 1, "E-CKPT-012", "states.safetensors")
    flip(f"{runs}/step-12/experiment.json", 40)
    expect_failure(evaluate("runs", "--steps", "9..", cwd=box), 1, "E-CKPT-")
    expect_failure(evaluate("runs/latest", cwd=box), 1, "E-CKPT-012", "step-6")
    shutil.rmtree(f"{runs}/step-3"), shutil.rmtree(f"{runs}/step-6"), shutil.rmtree(f"{runs}/step-12")
    expect_failure(evaluate("runs", cwd=box), 2, "E-CKPT-050", "runs: no complete checkpoint", "step-9 is torn")
    expect_failure(evaluate("runs", "--steps", "50..", cwd=box), 2, "E-CKPT-050", "in steps 50..")


@test
def a_checkpoint_removed_meanwhile_is_skipped(folder):
    inline, box = train(folder, main=MAIN + ";" + 200000 * "x" + "\n")
    process = start("runs", "-q", "--metrics", "stdout", cwd=box)  # its first record does not fit the pipe
    wait_for(lambda: read(f"/proc/{process.pid}/wchan") in ("pipe_write", "anon_pipe_write") or "S" == read(f"/proc/{process.pid}/stat").rsplit(")", 1)[1].split()[0])
    time.sleep(0.5)
    shutil.rmtree(f"{box}/runs/step-9")
    result = Result(process)
    expect(result.returncode == 0, result.stderr)
    expect("step-9 was removed before it was evaluated, skipped" in result.stderr, result.stderr)
    same(values(result.stdout), inline, (3, 6, 12))


@test
def refusals(folder):
    inline, box = train(folder, "--set", "lr=0.05")
    cases = [((), 2, "E-ENV-004", "found 0 names"), (("runs", "x"), 2, "E-ENV-004", "found 2"),
             (("runs", "--eval", "hold"), 2, "E-RUN-007", "the evaluations are held, noisy, alone"),
             (("runs", "--eval", "held", "--eval", "nosy"), 2, "E-RUN-007", "did you mean noisy?"),
             (("runs", "--device", "tpu"), 5, "E-DEVICE-001", "expected cpu or cuda"),
             (("runs/step-3", "--watch"), 2, "E-ENV-002", "--watch: found the checkpoint runs/step-3"),
             (("runs/step-3", "--steps", "3"), 2, "E-ENV-002", "--steps: found the checkpoint"),
             (("runs", "--poll", "0"), 2, "E-ENV-002", "--poll"), (("nowhere",), 4, "E-CKPT-002", "nowhere"),
             (("runs/step-4",), 4, "E-CKPT-030", "step-4"), (("runs", "--metrics", "nowhere"), 2, "E-METRIC-001"),
             (("runs", "--metrics", "jsonl:/nowhere/m"), 4, "E-METRIC-002"), (("runs", "--root", "/nowhere"), 4, "E-DATA-101", "/nowhere/points.csv")]
    cases += [(("runs", "--steps", text), 2, "E-ENV-002", "expected A..B") for text in ("", "..", "5..3", "3.5", "a..", "-1", "3..4x", "99999999999999999999")]
    for arguments, status, code, *words in cases:
        expect_failure(evaluate(*arguments, cwd=box), status, code, *words)
    expect_failure(evaluate("runs", cwd=box, env={"SEXPGPU_SIMD": "mmx"}), 2, "E-ENV-001")
    expect_failure(evaluate("runs", cwd=box, env={"SEXPGPU_CHOICES": "fresh:all"}), 2, "E-CHOICE-022")
    for word in ("--help", "--version"):
        expect(good(evaluate(word)).stdout.startswith(("usage: sexpgpu-evaluate", "sexpgpu-evaluate ")))
    expect(max(map(len, evaluate("--help").stdout.splitlines())) <= 100)
    with open(f"{box}/points.csv", "a") as f:
        f.write("1,2,3,4\n")
    expect_failure(evaluate("runs", cwd=box), 2, "E-CKPT-043", "data e, points.csv")


@test
def records_of_a_checkpoint_that_do_not_hold(folder):
    inline, box = train(folder, "--set", "lr=0.05")
    experiment = json.loads(read(f"{box}/runs/step-3/experiment.json"))
    knobs = [dict(k, value=None) if k["name"] == "lr" else k for k in experiment["knobs"]]
    reseal(f"{box}/runs/step-3", knobs=knobs)
    expect_failure(evaluate("runs/step-3", cwd=box), 2, "E-CKPT-051", "knob lr: the checkpoint records null")
    reseal(f"{box}/runs/step-6", records=7)
    expect_failure(evaluate("runs/step-6", cwd=box), 2, "E-CKPT-052", "the checkpoint has 7 records and stage 1, the run 26 and 1")
    reseal(f"{box}/runs/step-9", identity="sha256:0")
    expect_failure(evaluate("runs/step-9", cwd=box), 2, "E-CKPT-042", "identity")
    knobs = [dict(k, value=8) if k["name"] == "width" else k for k in experiment["knobs"]]
    reseal(f"{box}/runs/step-12", knobs=knobs)
    expect_failure(evaluate("runs/step-12", cwd=box), 2, "E-CKPT-041", "knob width")


# ---- watching ----------------------------------------------------------------------------------------------

SLOW = MAIN.replace(':steps 7', ':steps 395').replace(":checkpoint-every 3", ":checkpoint-every 20")


def sources(folder):
    write(f"{folder}/project/exp.sexp", SLOW), write(f"{folder}/project/parts/model.sexp", PART)
    write(f"{folder}/shared/evals.sexp", EVALS.replace(":every 3", ":every 20")), points(f"{folder}/project/points.csv")
    return f"{folder}/project/exp.sexp", f"{folder}/project"


@test
def a_watch_beside_a_run_that_trains(folder):
    path, root = sources(folder)
    log = f"{folder}/log.jsonl"
    watch = start(f"{folder}/deep/er/runs", "--watch", "--poll", 600, "--root", root, "--metrics", f"jsonl:{log}",
                  "--status", f"{folder}/status")
    wait_for(lambda: os.path.exists(f"{folder}/status") and json.loads(read(f"{folder}/status"))["state"] == "waiting", watch)
    inline = tool(path, "--quiet", "--checkpoint-dir", f"{folder}/deep/er/runs", "--metrics", "stdout")
    result = good(Result(watch, 60))
    expect("is not there yet; waiting for it" in result.stderr, result.stderr)
    expect(len(values(inline.stdout)) == 20 * 8 and values(valid(read(log))) == values(inline.stdout))
    status = json.loads(read(f"{folder}/status"))
    expect(status["state"] == "done" and status["step"] == status["steps"] == 400, status)
    expect(not schema_errors("status.json", [status]), schema_errors("status.json", [status]))


@test
def a_watch_killed_and_begun_again(folder):
    path, root = sources(folder)
    log = f"{folder}/log.jsonl"
    inline = tool(path, "--quiet", "--checkpoint-dir", f"{folder}/all", "--metrics", "stdout")
    os.mkdir(f"{folder}/runs")
    steps = sorted(int(n[5:]) for n in os.listdir(f"{folder}/all"))
    for i, step in enumerate(steps):
        if i % 4 == 0:
            watch = start(f"{folder}/runs", "--watch", "--poll", 600, "--root", root, "--metrics", f"jsonl:{log}")
        os.rename(f"{folder}/all/step-{step}", f"{folder}/runs/step-{step}")
        if i % 4 == 3 and step != steps[-1]:
            wait_for(lambda: os.path.exists(log) and f'"step": {step - 20}' in read(log), watch)
            watch.kill()
            watch.communicate()
    good(Result(watch, 60))
    expect(values(valid(read(log))) == values(inline.stdout))
    expect(sum(r["record"] == "manifest" for r in records(read(log))) == 1)


@test
def signals_end_a_watch_and_a_range_does(folder):
    inline, box = train(folder)
    shutil.move(f"{box}/runs/step-12", f"{box}/later")
    for number in (signal.SIGTERM, signal.SIGINT):
        watch = start("runs", "--watch", "--poll", 600, "--status", "status", "--metrics", "stdout", cwd=box)
        wait_for(lambda: os.path.exists(f"{box}/status") and json.loads(read(f"{box}/status"))["state"] == "waiting", watch)
        watch.send_signal(number)
        result = Result(watch, 60)
        expect(result.returncode == 128 + number and "stopped by SIG" in result.stderr, result.returncode, result.stderr)
        same(values(result.stdout), inline, (3, 6, 9))
        os.remove(f"{box}/status")
    result = good(evaluate("runs", "--watch", "--steps", "..6", "--poll", 600, "--metrics", "stdout", cwd=box))
    same(values(result.stdout), inline, (3, 6))


@test
def a_watched_place_that_is_replaced_or_polled(folder):
    inline, box = train(folder)
    for poll, swap in ((600, "rename"), (0.2, "link")):
        for name in ("a", "b", "place"):
            shutil.rmtree(f"{box}/{name}", ignore_errors=True) if not os.path.islink(f"{box}/{name}") else os.remove(f"{box}/{name}")
        for name, steps in (("a", (3, 6)), ("b", (6, 9, 12))):
            for step in steps:
                shutil.copytree(f"{box}/runs/step-{step}", f"{box}/{name}/step-{step}")
        os.rename(f"{box}/a", f"{box}/place") if swap == "rename" else os.symlink("a", f"{box}/place")
        watch = start("place", "--watch", "--poll", poll, "--status", "status", "--metrics", "jsonl:m.jsonl", cwd=box)
        wait_for(lambda: os.path.exists(f"{box}/status") and json.loads(read(f"{box}/status"))["state"] == "waiting", watch)
        if swap == "rename":
            os.rename(f"{box}/place", f"{box}/a"), os.rename(f"{box}/b", f"{box}/place")
        else:
            os.symlink("b", f"{box}/new"), os.rename(f"{box}/new", f"{box}/place")
        good(Result(watch, 60))
        same(values(read(f"{box}/m.jsonl")), inline)
        os.remove(f"{box}/m.jsonl"), os.remove(f"{box}/status")


@test
def a_watch_takes_what_is_copied_file_by_file(folder):
    inline, box = train(folder)
    os.mkdir(f"{box}/place")
    flip(f"{box}/runs/step-6/parameters.safetensors")
    watch = start("place", "--watch", "--poll", 0.1, "--metrics", "stdout", cwd=box)
    for step in (3, 6, 12):
        os.mkdir(f"{box}/place/step-{step}")
        for name in ("experiment.json", "states.safetensors", "parameters.safetensors"):
            time.sleep(0.15)
            shutil.copy(f"{box}/runs/step-{step}/{name}", f"{box}/place/step-{step}/.{name}")
            os.rename(f"{box}/place/step-{step}/.{name}", f"{box}/place/step-{step}/{name}")
    result = Result(watch, 60)
    expect_failure(result, 1, "E-CKPT-012", "2 evaluated", "1 failed", "step-3 is torn, not used")
    same(values(result.stdout), inline, (3, 12))


main()
