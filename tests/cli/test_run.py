#!/usr/bin/env python3
"""sexpgpu-run as a user meets it: options, environment, records, signals, failures."""
import json, os, re, resource, signal, struct, subprocess, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *

LINEAR = os.path.join(EXAMPLES, "linear", "linear.sexp")


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def tensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    return {k: struct.unpack(f"<{(t['data_offsets'][1] - t['data_offsets'][0]) // 4}f",
                             raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
            for k, t in head.items() if k != "__metadata__"}


SLOW = """(defrun slow :seed 1 :steps 100000000
  :loss (let ((w (param "w" [64] :init (ones shape)))) (mean (* w w)))
  :optimizer (sgd :lr 1e-9))"""


@test
def help_fits_a_screen_and_version_is_one_line(_):
    text = tool("--help").stdout
    expect(text.startswith("usage: sexpgpu-run") and len(text.splitlines()) <= 40, len(text.splitlines()))
    expect(re.fullmatch(r"sexpgpu-run \d+\.\d+\.\d+\n", tool("--version").stdout))


@test
def the_options_of_every_help_text_are_aligned(_):
    for name in ("run", "evaluate", "explain", "doctor"):
        text = subprocess.run([os.path.join(BUILD, "bin", "sexpgpu-" + name), "--help"], capture_output=True, text=True).stdout
        options = [line for line in text.splitlines() if re.match(r" +(-\w, )?--", line)]
        expect(len(options) > 3 and {len(re.match(r" +(-\w, )?--\S+( \S+)? +", line)[0]) for line in options} == {29}, text)
        expect(not re.search(r" $", text, re.M), text)


@test
def completion_knows_devices_and_records(folder):
    open(os.path.join(folder, "record.json"), "w").close()
    for name, tool_name in (("common", "run"), ("sexpgpu-evaluate", "evaluate"), ("sexpgpu-explain", "explain")):
        script = (f"source {ROOT}/tools/{name}/completion.bash; words() {{ COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); "
                  f"_sexpgpu_{tool_name}; echo \"${{COMPREPLY[@]}}\"; }}; words x -d cu; words x --device c; words x --choices f; words x --choices rec")
        result = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True)
        expect(result.stdout == "cuda\ncpu cuda\nfresh\nrecord.json\n", name, result)


@test
def help_and_man_page_name_the_same_options(_):
    page = read(os.path.join(ROOT, "tools", "sexpgpu-run", "sexpgpu-run.1")).replace("\\-", "-")
    for option in re.findall(r"--[a-z-]+", tool("--help").stdout):
        expect(option in page, option, "is not in the man page")


@test
def wrong_usage_is_refused_by_name(folder):
    for arguments, code, words in [
        (["--nonsense", LINEAR], "E-ENV-002", "--nonsense"), (["--steps"], "E-ENV-002", "--steps"),
        (["--steps", "0", LINEAR], "E-ENV-002", "positive integer"), (["--steps", "x", LINEAR], "E-ENV-002", '"x"'),
        (["--quiet=1", LINEAR], "E-ENV-002", "takes no value"), (["-z", LINEAR], "E-ENV-002", "-z"),
        (["--digest", "10", LINEAR], "E-ENV-002", "every=N"), ([], "E-ENV-004", "found 0 files"),
        ([LINEAR, LINEAR], "E-ENV-004", "found 2 files"), 
        (["--metrics", "csv:x", LINEAR], "E-METRIC-001", "csv:x"),
    ]:
        expect_failure(tool(*arguments), 2, code, words)
    expect_failure(tool("--device", "tpu", LINEAR), 5, "E-DEVICE-001", "tpu", "expected cpu or cuda")
    expect_failure(tool("--device", "cuda", LINEAR, env={"SEXPGPU_DEVICES": "0,1"}), 5, "E-DEVICE-060", "0,1")


@test
def malformed_variables_are_refused_by_name(_):
    for name, value in [("SEXPGPU_EVAL_LIMIT", "many"), ("SEXPGPU_EVAL_LIMIT", "-1"), ("SEXPGPU_DETERMINISTIC", "yes"),
                        ("SEXPGPU_OPTIMIZE", "2"), ("SEXPGPU_MEMORY", "small"), ("SEXPGPU_EXPLAIN", "all"),
                        ("SEXPGPU_SIMD", "mmx"), ("SEXPGPU_DEVICES", "all"), ("SEXPGPU_PATTERNS", "x"), ("SEXPGPU_PIN", "2"),
                        ("SEXPGPU_METRICS", "")]:
        expect_failure(tool(LINEAR, env={name: value}), 2, "E-ENV-001", name)
    for name in ("NODES", "NODE_RANK", "RENDEZVOUS"):
        expect_failure(tool(LINEAR, env={"SEXPGPU_" + name: "1"}), 2, "E-ENV-003", name)


@test
def a_flag_wins_over_its_variable(folder):
    a, b = os.path.join(folder, "a"), os.path.join(folder, "b")
    result = tool("--steps", 2, "--metrics", f"jsonl:{a}", LINEAR, env={"SEXPGPU_METRICS": f"jsonl:{b}"})
    expect(result.returncode == 0, result.stderr)
    expect(os.path.exists(a) and not os.path.exists(b))


@test
def the_linear_regression_ends_at_the_known_answer(folder):
    result = tool(LINEAR, "--checkpoint-dir", folder, "--quiet")
    expect(result.returncode == 0 and result.stderr == "", result.stderr)
    got = tensors(os.path.join(folder, "step-300", "parameters.safetensors"))
    for have, want in zip(got["w"] + got["b"], (3, -2, 0.5, 0.25)):
        expect(abs(have - want) < 1e-4, have, want)


@test
def records_follow_their_schemas(folder):
    status = os.path.join(folder, "status.json")
    result = tool(LINEAR, "--steps", 4, "--metrics", "stdout", "--status", status, "--checkpoint-dir", folder,
                  "--digest", "every=2", "--digest-nodes", "step=3")
    expect(result.returncode == 0, result.stderr)
    stream = records(result.stdout)
    names = [r.get("name", r["record"]) for r in stream]
    expect(names[0] == "manifest" and names[1] == "lowering", names[:3])
    for name in ("train/loss", "digest/parameters", "digest/gradients", "checkpoint", "perf/seconds"):
        expect(name in names, name)
    expect(any(n.startswith("digest/node/") for n in names))
    experiment = json.loads(read(os.path.join(folder, "step-4", "experiment.json")))
    errors = (schema_errors("metrics.json", stream) + schema_errors("status.json", [json.loads(read(status))]) +
              schema_errors("experiment.json", [experiment]) + schema_errors("choices.json", [experiment["choices"]]))
    expect(not errors, errors[:3])
    expect(json.loads(read(status))["state"] == "done")
    digest = [r for r in stream if r.get("name") == "checkpoint"][0]["metadata"]["digest"]
    expect(digest == experiment["digest"])


@test
def reals_print_as_their_bits_say(_):
    for r in records(tool(LINEAR, "--steps", 5, "--quiet", "--metrics", "stdout").stdout):
        if r["record"] == "value":
            expect(struct.pack(">f", r["value"]).hex() == r["bits"], r)


@test
def a_run_repeated_is_byte_equal(folder):
    runs = [tool(LINEAR, "--steps", 20, "--quiet", "--metrics", "stdout", "--checkpoint-dir", f"{folder}/{i}",
                 "--digest", "every=5", env=env)
            for i, env in enumerate([{}, {}, {"SEXPGPU_OPTIMIZE": "0"}])]
    expect(runs[0].returncode == 0, runs[0].stderr)
    for other in runs[1:]:
        expect(steady(runs[0].stdout) == steady(other.stdout))
    for name in ("parameters.safetensors", "states.safetensors"):
        expect(len({open(f"{folder}/{i}/step-20/{name}", "rb").read() for i in range(3)}) == 1, name)


@test
def metrics_are_appended_after_a_torn_line_is_cut(folder):
    path = write(folder, "m.jsonl", '{"record": "value"}\n{"rec')
    expect(tool(LINEAR, "--steps", 1, "--quiet", "--metrics", f"jsonl:{path}").returncode == 0)
    lines = read(path).splitlines()
    expect(lines[0] == '{"record": "value"}' and json.loads(lines[1])["record"] == "manifest")


@test
def overrides_are_recorded(folder):
    result = tool(LINEAR, "--steps", 3, "--set", "lr=0.2", "--quiet", "--metrics", "stdout", "--status", f"{folder}/s")
    knobs = {k["name"]: k for k in records(result.stdout)[0]["knobs"]}
    expect(knobs["lr"]["value"] == 0.2 and knobs["lr"]["source"] == "set", knobs)
    expect(knobs["steps"]["value"] == 3 and knobs["steps"]["source"] == "override", knobs)
    expect(json.loads(read(f"{folder}/s"))["overrides"] == ["steps"])


@test
def the_report_ends_with_determinism_and_choices(_):
    result = tool(LINEAR, "--explain")
    expect(result.returncode == 0 and result.stderr == "", result.stderr)
    lines = result.stdout.strip().splitlines()
    expect(lines[-2] == "determinism         2: any CPU repeats these bits with no record (numerics 1)", lines)
    expect(lines[-1].startswith("choices             none to make on a CPU; digest sha256:"), lines)
    for label in ("experiment", "model", "graph", "memory", "device"):
        expect(any(line.startswith(f"{label:<20}") for line in lines), label)
    expect(len(tool(LINEAR, "--explain", env={"SEXPGPU_EXPLAIN": "kernels"}).stdout.splitlines()) > len(lines))


@test
def a_signal_ends_the_run_after_its_step_with_a_checkpoint(folder):
    path = write(folder, "slow.sexp", SLOW)
    for number in (signal.SIGINT, signal.SIGTERM):
        out = os.path.join(folder, str(int(number)))
        process = subprocess.Popen([RUN, path, "--metrics", f"jsonl:{out}.jsonl", "--checkpoint-dir", out, "--quiet"],
                                   stderr=subprocess.PIPE, text=True)
        while not os.path.exists(out + ".jsonl") or '"train/loss"' not in read(out + ".jsonl"):
            time.sleep(0.02)
        process.send_signal(number)
        error = process.communicate(timeout=60)[1]
        expect(process.returncode == 128 + number, process.returncode, error)
        last = records(read(out + ".jsonl"))
        stopped = [r for r in last if r.get("name") == "stopped"][0]
        expect(os.listdir(out) == [f"step-{stopped['step']}"], os.listdir(out), stopped)
        expect(f"after step {stopped['step']}" in error, error)


@test
def missing_files_are_errors_with_a_place(folder):
    expect_failure(tool(os.path.join(folder, "none.sexp")), 2, "E-READ-008", "none.sexp")
    path = write(folder, "a.sexp", '(defdata d :source (arrays "none.npy"))\n(defrun r :seed 1 :steps 1 :data d '
                                   ':batch 1 :loss (sum x) :optimizer (sgd :lr 1))')
    expect_failure(tool(path), 4, "none.npy", "a.sexp:1:")


@test
def disks_that_fail_are_said_and_nothing_is_half_written(folder):
    expect_failure(tool(LINEAR, "--metrics", "jsonl:/dev/full"), 4, "E-METRIC-003", "/dev/full")
    expect_failure(tool(LINEAR, "--metrics", f"jsonl:{folder}/none/m"), 4, "E-METRIC-002", "none/m")
    write(folder, "file", "")
    expect_failure(tool(LINEAR, "--checkpoint-dir", f"{folder}/file"), 4, "E-CKPT-002", "file")
    result = tool(LINEAR, "--steps", 2, "--status", f"{folder}/none/status", "--quiet")
    expect(result.returncode == 0 and "E-METRIC-004" in result.stderr, result.stderr)


@test
def a_run_that_does_not_fit_says_what_it_needs(_):
    expect_failure(tool(LINEAR, env={"SEXPGPU_MEMORY": "0.0000001"}), 2, "E-DEVICE-002", "SEXPGPU_MEMORY", "parameters")


@test
def bound_threads_compute_the_same_bits(folder):
    path = os.path.join(EXAMPLES, "digits", "digits.sexp")
    streams = [tool(path, "--steps", 5, "--quiet", "--metrics", "stdout", "--threads", threads, env={"SEXPGPU_PIN": pin})
               for threads, pin in ((1, "0"), (2, "1"), (64, "1"))]
    losses = [[r["value"] for r in records(s.stdout) if r.get("name") == "train/loss"] for s in streams]
    expect(losses[0] == losses[1] == losses[2] and len(losses[0]) == 5, losses, streams[0].stderr)


@test
def memory_that_the_system_does_not_have_is_not_begun_with(folder):
    path = write(folder, "large.sexp", '(defrun r :seed 1 :steps 1 :optimizer (sgd :lr 0.1)\n'
                 '  :loss (mean (param "w" [60000 5000] :init (zeros shape))))')
    if is_sanitized():
        return
    limited = subprocess.run([RUN, path], capture_output=True, text=True, env=environment(None), timeout=60,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)))
    expect_failure(limited, 2, "E-DEVICE-002", "the run needs 2.2 GiB, ulimit -v leaves ", "parameters and state 1.1 GiB",
                   "gradients 1.1 GiB", "recompute 1e+09 operations a byte")


@test
def what_no_machine_has_is_refused_too(folder):
    """Sums that overflow are the most there is; threads count as many as are started."""
    path = write(folder, "huge.sexp", '(defrun r :seed 1 :steps 3 :checkpoint-every 1 :optimizer (adamw :lr 0.1)\n'
                 '  :loss (fold (lambda (x i) (scope i (+ x (mean (param "w" [1000000000 70000000] :init (zeros shape))))))\n'
                 '              0.0 (range 10)))')
    expect_failure(tool(path, "--checkpoint-dir", folder + "/out"), 2, "E-DEVICE-002", "the run needs 8388608.0 TiB")
    needs = [re.search(r"the run needs (\S+ \S+),", tool(LINEAR, "--threads", n, env={"SEXPGPU_MEMORY": "1e-6"}).stderr).group(1)
             for n in (1024, 99999999)]
    expect(needs[0] == needs[1], needs)


@test
def less_memory_computes_more_again_with_the_same_bits(folder):
    path = write(folder, "deep.sexp", '(defun layer (x i) (scope i (let ((h (matmul x (param "w" [64 64] :init (glorot shape)))))\n'
                 '  (+ x (* h (sigmoid (* 1.5 (+ h 0.5))))))))\n'
                 '(defrun r :seed 1 :steps 3 :optimizer (adamw :lr 0.01)\n'
                 '  :loss (mean (fold layer (uniform [2048 64] :salt :step) (range 6))))')
    stated = write(folder, "stated.sexp", read(path).replace(":seed 1", ":seed 1 :recompute 0", 1))

    def run(file, memory):
        result = tool(file, "--metrics", "stdout", env={"SEXPGPU_MEMORY": memory})
        expect(result.returncode == 0, result.stderr)
        losses = [r["value"] for r in records(result.stdout) if r.get("name") == "train/loss"]
        return losses, next(line for line in result.stderr.splitlines() if line.startswith("memory "))

    losses, usual = run(path, "1")
    again, tight = run(path, "0.0115")
    none, plain = run(stated, "1")
    expect(losses == again == none and len(losses) == 3, losses, again, none)
    expect(usual.endswith("; recompute 4 operations a byte") and tight.endswith("; recompute 16 operations a byte"), usual, tight)
    expect("recompute" not in plain and "activations" in plain and ", at least " in plain and "scratch" in plain, plain)
    expect_failure(tool(stated, env={"SEXPGPU_MEMORY": "0.0115"}), 2, "E-DEVICE-002", "recompute 0 operations a byte")


@test
def the_experiments_of_the_readme_and_the_tutorial_run(folder):
    ran = 0
    for page in ("README.md", "docs/tutorial.md"):
        for block in re.findall(r"```lisp\n(.*?)```", read(os.path.join(ROOT, page)), re.S):
            if "(defrun" in block:
                result = tool(write(folder, "block.sexp", block), "--steps", 3, "--quiet")
                expect(result.returncode == 0, page, result.stderr)
                ran += 1
    expect(ran == 3, ran)


@test
def the_examples_of_the_man_page_run(folder):
    page = read(os.path.join(ROOT, "tools", "sexpgpu-run", "sexpgpu-run.1"))
    commands = [c.strip().replace("\\-", "-") for c in re.findall(r"\.nf\n\.RS\n(.*?)\.RE", page, re.S)]
    write(folder, "exp.sexp", read(LINEAR))
    expected = [line for line in tool(LINEAR, "--digest", "every=10", "--metrics", "stdout",
                                      env={"SEXPGPU_RUN_SLUG": "exp"}).stdout.splitlines() if '"digest/' in line]
    write(folder, "expected.jsonl", "\n".join(expected) + "\n")
    os.symlink(EXAMPLES, os.path.join(folder, "examples"))
    for command in commands:
        env = {**os.environ, "PATH": os.path.join(BUILD, "bin") + ":" + os.environ["PATH"]}
        result = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=env, capture_output=True, text=True)
        expect(result.returncode == 0, command, result.stdout[:300], result.stderr[:300])
    expect(len(commands) == 3, len(commands))


main()
