#!/usr/bin/env python3
"""Checkpoints written beside the training: what a stream holds, what a signal in the middle of a write leaves, and
every way in which a place of checkpoints fails while a run goes on."""
import os, re, resource, shutil, signal, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *

CHECKPOINT = os.path.join(BUILD, "bin", "sexpgpu-checkpoint")
MODEL = """(defrun r :seed 3 :steps {steps} :checkpoint-every {every} :checkpoint-keep {keep}
  :loss (let ((w (param "w" [{rows} 1024] :init (glorot shape)))) {loss})
  :optimizer (momentum :lr 0.1 :momentum 0.9))
"""


NOISY = "(mean (* w (+ w (normal [{rows} 1024] :salt :step))))"


def experiment(folder, steps=30, every=3, keep=0, rows=64, loss=NOISY, name="exp.sexp"):
    """Parameters and states have 8 KiB a row."""
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(MODEL.format(steps=steps, every=every, keep=keep, rows=rows, loss=loss.format(rows=rows)))
    return path


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def annotations(text, *names):
    return [(r["name"], r["step"]) for r in records(text) if r["record"] == "annotation" and r["name"] in names]


def start(*arguments, **options):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SEXPGPU_")}
    return subprocess.Popen([RUN, *map(str, arguments)], stderr=subprocess.PIPE, text=True, env=clean, **options)


def until(condition, process=None, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < end, "nothing came")
        if process is not None and process.poll() is not None and not condition():
            raise AssertionError(f"the run ended early: {process.returncode} {process.stderr.read()[:500]}")
        time.sleep(0.003)


def status_of(path):
    return json.loads(read(path)) if os.path.exists(path) else {}


def complete(place):
    """The steps that are there; each must verify, and nothing else may lie there."""
    names = sorted(os.listdir(place), key=lambda n: int(n.split("-")[1]) if n.startswith("step-") else -1)
    expect(all(re.fullmatch(r"step-\d+", n) for n in names), names)
    for name in names:
        result = subprocess.run([CHECKPOINT, "verify", os.path.join(place, name)], capture_output=True, text=True)
        expect(result.returncode == 0, result.stderr)
    return [int(n.split("-")[1]) for n in names]


def tries(place):
    return [n for n in os.listdir(place) if n.startswith(".tmp-")]


# ---- the stream ----


@test
def equal_runs_have_equal_streams_however_long_a_write_takes(folder):
    path = experiment(folder, rows=512)
    places = [tempfile.mkdtemp(dir="/dev/shm") if os.path.isdir("/dev/shm") else folder + "/0", folder + "/1", folder + "/2"]
    streams = []
    try:
        for place, threads in zip(places, (1, 2, 3)):
            result = tool(path, "--quiet", "--metrics", "stdout", "--checkpoint-dir", place, "--threads", threads)
            expect(result.returncode == 0, result.stderr)
            streams.append(result.stdout)
            expect(complete(place) == list(range(3, 31, 3)))
    finally:
        shutil.rmtree(places[0])
    expect(steady(streams[0]) == steady(streams[1]) == steady(streams[2]))
    expect(not schema_errors("metrics.json", records(streams[0])))
    events = [(r["name"], r["step"]) for r in records(streams[0]) if r.get("name") in ("train/loss", "checkpoint")]
    expected = []
    for step in range(1, 31):
        expected.append(("train/loss", step))
        if step % 3 == 0 and step > 3:
            expected.append(("checkpoint", step - 3))
    expect(events == expected + [("checkpoint", 30)], events)


@test
def a_finished_checkpoint_is_shown_before_the_next_is_due(folder):
    path, place, status = experiment(folder, steps=1000000, every=2000), folder + "/out", folder + "/status"
    process = start(path, "--quiet", "--metrics", f"jsonl:{place}.jsonl", "--checkpoint-dir", place, "--status", status)
    until(lambda: status_of(status).get("last_checkpoint"), process)
    shown = status_of(status)
    process.kill()
    process.communicate()
    expect(shown["state"] == "running" and shown["last_checkpoint"] == "step-2000" and shown["step"] < 4000, shown)
    expect(not annotations(read(place + ".jsonl").rsplit("\n", 1)[0], "checkpoint"), "it was recorded early")


@test
def a_run_waits_for_a_write_and_says_so_once(folder):
    frozen = '(slice (param "frozen" [40960 1024] :init (zeros shape) :trainable false) 0 0 1)'
    path = experiment(folder, steps=6, every=1, rows=1, loss=f"(mean (* w (+ w {frozen})))")  # 160 MiB that no step computes
    result = tool(path, "--quiet", "--metrics", "stdout", "--checkpoint-dir", folder + "/out")
    expect(result.returncode == 0, result.stderr)
    waits = [r for r in records(result.stdout) if r.get("name") == "perf/checkpoint_wait"]
    expect(waits and {2, 3, 4, 5} >= {r["step"] for r in waits}, waits)
    expect(result.stderr.count("waited") == any(r["value"] >= 0.1 for r in waits), result.stderr, waits)
    expect(annotations(result.stdout, "checkpoint") == [("checkpoint", n) for n in range(1, 7)])
    for name in ("perf/checkpoint_copy", "perf/checkpoint_write"):
        expect(len([r for r in records(result.stdout) if r.get("name") == name]) == (5 if "copy" in name else 6), name)


@test
def the_copy_counts_as_memory_where_one_is_made(folder):
    path = experiment(folder, rows=1024)  # parameters and state 8 MiB, written in place; the copy 8 MiB
    for arguments, copied in [((), False), (("--checkpoint-dir", folder + "/out"), True),
                              (("--checkpoint-dir", folder + "/out", "--steps", 3), False)]:
        report = tool(path, "--explain", *arguments)
        expect((", a checkpoint's copy 8.0 MiB" in report.stdout) == copied, report.stdout)
        need = float(re.search(r"the run needs ([\d.]+) MiB", tool(path, "--explain", *arguments,
                     env={"SEXPGPU_MEMORY": "0.00001"}).stderr).group(1))
        base = need if not arguments else base
        expect(abs(need - base - (8 if copied else 0)) < 0.11, need, base)


@test
def a_resume_records_a_checkpoint_that_the_killed_run_did_not(folder):
    path, out = experiment(folder, steps=12), folder + "/out"
    expect(tool(path, "--quiet", "--checkpoint-dir", out, "--metrics", f"jsonl:{out}.jsonl").returncode == 0)
    before = read(out + ".jsonl")
    lines = before.splitlines(keepends=True)
    at = [json.loads(line).get("name") == "checkpoint" and json.loads(line)["step"] == 6 for line in lines].index(True)
    for step in (9, 12):
        shutil.rmtree(f"{out}/step-{step}")
    for kept in (lines[:at], lines[:at + 1], lines):  # killed before its record, after it, later
        with open(out + ".jsonl", "w") as f:
            f.write("".join(kept) + '{"rec')
        expect(tool(path, "--quiet", "--checkpoint-dir", out, "--metrics", f"jsonl:{out}.jsonl", "--resume",
                    "latest").returncode == 0)
        after = read(out + ".jsonl")
        expect(annotations(after, "checkpoint") == annotations(before, "checkpoint"), annotations(after, "checkpoint"))
        of = lambda text: [line for line in text.splitlines() if json.loads(line)["record"] == "value"]
        expect(of(after) == of(before))
        digests = lambda text: [r["metadata"] for r in records(text) if r.get("name") == "checkpoint"]
        expect(digests(after) == digests(before))
        for step in (9, 12):
            shutil.rmtree(f"{out}/step-{step}")


# ---- signals ----


@test
def a_signal_in_the_middle_of_a_write_leaves_that_checkpoint_and_the_last(folder):
    for number in (signal.SIGTERM, signal.SIGINT):
        path, out = experiment(folder, steps=1000000, every=5, rows=4096), os.path.join(folder, str(int(number)))
        process = start(path, "--quiet", "--metrics", f"jsonl:{out}.jsonl", "--checkpoint-dir", out)
        until(lambda: os.path.isdir(out) and tries(out), process)
        process.send_signal(number)
        error = process.communicate(timeout=60)[1]
        expect(process.returncode == 128 + number, process.returncode, error)
        steps = complete(out)
        got = annotations(read(out + ".jsonl"), "checkpoint", "stopped")
        expect(got == [("checkpoint", n) for n in steps] + [("stopped", steps[-1])], got, steps)
        expect(steps[0] == 5, steps)


@test
def a_second_interrupt_ends_the_run_at_once(folder):
    path, out = experiment(folder, steps=1000000, every=5, rows=8192), folder + "/out"
    process = start(path, "--quiet", "--checkpoint-dir", out)
    until(lambda: os.path.isdir(out) and tries(out), process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    process.communicate(timeout=60)
    expect(process.returncode == -signal.SIGINT, process.returncode)
    expect(time.monotonic() - begin < 5)
    result = tool(path, "--quiet", "--checkpoint-dir", out, "--steps", 7)
    expect(result.returncode == 0 and complete(out)[-1] == 7, result.stderr)


# ---- places that fail ----


def mounted(folder, megabytes):
    """A small file system of its own, or None where this user may not mount one."""
    place = os.path.join(folder, "disk")
    os.makedirs(place)
    result = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", place], capture_output=True, text=True)
    if result.returncode:
        print(f"not tried: no file system can be mounted here ({result.stderr.strip()})")
        return None
    return place


def failing(folder, out, breaks, repairs, code, **options):
    """A run whose place breaks after its first checkpoint, and is repaired once the run has said so.

    It ends with its third failure. So a run that is to go on is stopped while its place is repaired, and has its
    checkpoints so far apart that it is stopped before."""
    every = 600 if repairs else 40
    path, status = experiment(folder, steps=1000000, every=every, rows=64), os.path.join(folder, "status")
    process = start(path, "--quiet", "--metrics", f"jsonl:{folder}/m.jsonl", "--checkpoint-dir", out, "--status", status,
                    **options)
    try:
        until(lambda: status_of(status).get("last_checkpoint"), process)
        breaks()
        until(lambda: (status_of(status).get("error") or {}).get("code") == code, process)
        expect(status_of(status)["last_checkpoint"], status_of(status))
        if repairs:
            process.send_signal(signal.SIGSTOP)
            repairs()
            process.send_signal(signal.SIGCONT)
            until(lambda: status_of(status).get("error") is None, process)
            process.send_signal(signal.SIGTERM)
        error = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    expect(code in error and "was not written; the last checkpoint is step-" in error, error[:600])
    got = annotations(read(folder + "/m.jsonl"), "checkpoint", "checkpoint failed", "stopped")
    failed = [r for r in records(read(folder + "/m.jsonl")) if r.get("name") == "checkpoint failed"]
    expect(failed and failed[0]["metadata"]["code"] == code and failed[0]["text"] == f"step-{failed[0]['step']}", failed)
    expect(not schema_errors("metrics.json", failed))
    if repairs:
        expect(process.returncode == 128 + signal.SIGTERM, process.returncode, error)
        expect(got[-2:] == [("checkpoint", got[-1][1]), ("stopped", got[-1][1])], got)
    else:
        expect(process.returncode == 4 and "E-CKPT-070" in error, process.returncode, error)
        expect(status_of(status)["state"] == "failed", status_of(status))
        expect([name for name, _ in got[-4:]] == ["checkpoint failed"] * 4, got)  # the fourth: the last try
    return got


def fill(place):
    with open(os.path.join(place, "ballast"), "wb") as f:
        try:
            while True:
                f.write(bytes(1 << 16))
                f.flush()
        except OSError:
            pass


@test
def a_full_disk_keeps_the_last_checkpoint_and_the_run_goes_on(folder):
    place = mounted(folder, 8)
    if not place:
        return
    try:
        out = os.path.join(place, "out")
        failing(folder, out, lambda: fill(place), lambda: os.remove(os.path.join(place, "ballast")), "E-CKPT-004")
        complete(out)
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@test
def three_failures_in_a_row_end_the_run(folder):
    place = mounted(folder, 8)
    if not place:
        return
    try:
        out = os.path.join(place, "out")
        failing(folder, out, lambda: fill(place), None, "E-CKPT-004")
        expect(complete(out), "the last good one is gone")
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@test
def a_disk_that_becomes_read_only(folder):
    place = mounted(folder, 64)
    if not place:
        return
    remount = lambda how: subprocess.run(["mount", "-o", f"remount,{how}", place], capture_output=True).returncode == 0

    def breaks():
        until(lambda: remount("ro"))  # busy while a file is open for writing

    try:
        failing(folder, os.path.join(place, "out"), breaks, lambda: expect(remount("rw")), "E-CKPT-004")
        complete(os.path.join(place, "out"))
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@test
def a_directory_without_permission(folder):
    out, nobody = os.path.join(folder, "out"), {}
    os.makedirs(out)
    if os.getuid() == 0:  # whom modes do not hold back: the run is another user's
        os.chmod(folder, 0o777)
        os.chown(out, 65534, 65534)
        shutil.copy(RUN, os.path.join(folder, "sexpgpu-run"))
        nobody = {"user": 65534, "group": 65534, "extra_groups": [], "executable": os.path.join(folder, "sexpgpu-run")}
    failing(folder, out, lambda: os.chmod(out, 0o555), lambda: os.chmod(out, 0o755), "E-CKPT-004", **nobody)
    complete(out)


@test
def a_limit_of_file_sizes_is_an_error_not_a_signal(folder):
    path = experiment(folder, steps=8, every=2, rows=512)
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    process = start(path, "--quiet", "--checkpoint-dir", folder + "/out", preexec_fn=limit)
    error = process.communicate(timeout=60)[1]
    expect(process.returncode == 4 and "E-CKPT-004" in error and "File too large" in error, process.returncode, error)
    expect("the last checkpoint is none" in error and os.listdir(folder + "/out") == [], error)


@test
def a_removed_directory_is_not_made_again_but_used_when_it_is(folder):
    out = os.path.join(folder, "out")
    os.makedirs(out)

    def repairs():
        expect(not os.path.exists(out), "the run made it again")
        os.makedirs(out)

    got = failing(folder, out, lambda: until(lambda: not os.path.exists(out) or shutil.rmtree(out, True)), repairs, "E-CKPT-003")
    expect(complete(out)[-1] == got[-1][1])


@test
def a_removed_directory_ends_the_run_in_the_end(folder):
    out = os.path.join(folder, "out")
    failing(folder, out, lambda: until(lambda: not os.path.exists(out) or shutil.rmtree(out, True)), None, "E-CKPT-003")
    expect(not os.path.exists(out))


@test
def a_file_in_the_place_of_the_directory(folder):
    out = os.path.join(folder, "out")

    def breaks():
        until(lambda: not os.path.exists(out) or shutil.rmtree(out, True))
        with open(out, "w"):
            pass

    failing(folder, out, breaks, None, "E-CKPT-003")
    expect(os.path.isfile(out))


@test
def a_moved_directory_takes_what_comes_wherever_it_is(folder):
    path, out, moved = experiment(folder, steps=1000000, every=40), folder + "/out", folder + "/moved"
    process = start(path, "--quiet", "--checkpoint-dir", out)
    until(lambda: os.path.isdir(out + "/step-40"), process)
    os.rename(out, moved)
    until(lambda: os.path.isdir(moved + "/step-120"), process)
    process.send_signal(signal.SIGTERM)
    error = process.communicate(timeout=60)[1]
    expect(process.returncode == 128 + signal.SIGTERM and not os.path.exists(out), error)
    complete(moved)


@test
def a_last_checkpoint_that_fails_is_exit_4(folder):
    path = experiment(folder, steps=4, every=100, rows=512)
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    process = start(path, "--quiet", "--checkpoint-dir", folder + "/out", preexec_fn=limit)
    error = process.communicate(timeout=60)[1]
    expect(process.returncode == 4 and error.count("E-CKPT-004") == 1 and "step-4 was not written" in error, error)
    path = experiment(folder, steps=1000000, every=1000000, rows=512)
    process = start(path, "--quiet", "--metrics", f"jsonl:{folder}/m.jsonl", "--checkpoint-dir", folder + "/out", preexec_fn=limit)
    until(lambda: os.path.exists(folder + "/m.jsonl") and "train/loss" in read(folder + "/m.jsonl"), process)
    process.send_signal(signal.SIGTERM)
    error = process.communicate(timeout=60)[1]
    expect(process.returncode == 4 and "E-CKPT-004" in error and "stopped by SIGTERM" in error, process.returncode, error)


main()
