#!/usr/bin/env python3
"""Object storage that fails: a proxy that makes faults, a server that is killed, a tool that is killed. A run has the
right digest after its retries, or ends with a code; and a checkpoint is never taken for whole that is not."""
import atexit, collections, concurrent.futures, hashlib, json, os, random, signal, subprocess, sys, tempfile, threading, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *
from object_storage import *
from fault_proxy import FaultProxy

SERVER = need_server()
CLIENT, BUCKET = client(SERVER), BUCKETS["checkpoint"]
PLACE, HANGING = f"s3://{BUCKET}", "test-hanging"
storage = storage_test(SERVER)
tried, asked = collections.Counter(), collections.Counter()
SEED = int(os.environ.get("SEED", "1"))

SMALL = """(defrun r :seed 3 :steps 24 :checkpoint-every 2 :loss (let ((w (param "w" [5] :init (normal shape)))) (sum (* w w)))
  :optimizer (adam :lr 0.1))"""
LARGE = """(defrun r :seed 3 :steps {} :checkpoint-every 2 :optimizer (sgd :lr 100)
  :loss (let ((t (param "table" [70000 64] :init (normal shape)))) (mean (* (* t t) (* t t)))))"""
READ = """(defdata d :source (windows "{}" :dtype u8 :length 1024 :field t) :order shuffled)
(defrun r :seed 3 :data d :batch 4 :steps 4 :optimizer (sgd :lr 0.1)
  :loss (mean (* (/ (cast t f32) 128) (param "w" [1024] :init (normal shape)))))"""
WORKERS = 4
beside = concurrent.futures.ThreadPoolExecutor(2)


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    return path


def run(*arguments, endpoint=None, **options):
    return watched([RUN, "--quiet", *arguments], SERVER.environment("checkpoint", endpoint=endpoint), **options)


def good(result):
    expect(result.returncode == 0, result.args, result.returncode, result.stderr[-800:])
    return result


def record(prefix):
    return json.loads(CLIENT.get(BUCKET, f"{prefix}/experiment.json"))


def digest_of(path, folder, *arguments):
    """Of the run's end, without storage."""
    out = os.path.join(folder, "whole-" + os.path.basename(path))
    good(run(path, "--checkpoint-dir", out, *arguments))
    last = max(os.listdir(out), key=lambda name: int(name.split("-")[1]))
    with open(os.path.join(out, last, "experiment.json"), encoding="utf-8") as f:
        return json.load(f)["digest"]


def note(proxy, what):
    for name, n in proxy.failed.items():
        tried[what, name] += n
    asked.update(proxy.requests)


def each(function, items):
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for future in [pool.submit(function, item) for item in items]:
            future.result()


# ---- faults that end -------------------------------------------------------------------------------------

ANSWERED = ["500", "503", "429"]
UP = [*ANSWERED, "reset", "lost-answer", "cut-request", "cut-answer", "delay"]
GETS = 5  # smaller reads of a checkpoint, before those of the table in parallel
DOWN = [*ANSWERED, "reset", "lost-answer", "cut-answer", "truncate", "delay", "trickle"]


def arm(proxy, names, kind, size):
    """Each fault once, a request apart."""
    for name in names:
        amount = {"cut-request": size // 2, "cut-answer": 150, "truncate": max(1, size // 3), "trickle": max(1, size // 4)}
        proxy.fail(name, of=kind, after=1, bytes=amount.get(name, size // 2), seconds=0.2)


def all_happened(proxy, names, what):
    expect(sorted(proxy.failed) == sorted(names) and set(proxy.failed.values()) == {1}, what, dict(proxy.failed), names)
    note(proxy, what)


@storage
def uploads_of_small_files_survive_each_fault(folder):
    path = write(folder, "small.sexp", SMALL)
    wanted = digest_of(path, folder)
    with FaultProxy(SERVER.port) as proxy:
        arm(proxy, UP, "put", 300)
        good(run(path, "--checkpoint-dir", f"{PLACE}/small", endpoint=proxy.endpoint))
        all_happened(proxy, UP, "put")
    expect(record("small/step-24")["digest"] == wanted)
    for step in range(2, 25, 2):
        check_whole(f"small/step-{step}")


@storage
def multipart_uploads_survive_each_fault(folder):
    path = write(folder, "large.sexp", LARGE.format(2))
    wanted = digest_of(path, folder)

    def one(case):
        kind, name = case
        with FaultProxy(SERVER.port) as proxy:
            proxy.fail(name, of=kind, bytes=3 << 20 if kind == "part" else 60, seconds=0.2)
            good(run(path, "--checkpoint-dir", f"{PLACE}/large/{kind}-{name}", endpoint=proxy.endpoint))
            all_happened(proxy, [name], kind)
            expect(proxy.requests["part"] >= 3, dict(proxy.requests))
        expect(record(f"large/{kind}-{name}/step-2")["digest"] == wanted, case)
        check_whole(f"large/{kind}-{name}/step-2")

    lost = [("begin", name) for name in ("lost-answer", "truncate")]  # nobody learns of the upload that was begun
    others = [("begin", "503")] + [("complete", name) for name in ("200", "500", "reset", "lost-answer", "truncate")]
    each(one, lost + [("part", name) for name in UP][::3 if QUICK else 1] + others[::3 if QUICK else 1])
    for kind, name in lost:
        place = f"large/{kind}-{name}"
        expect(len(CLIENT.uploads(BUCKET, place)) == 1, place)
        good(run(path, "--resume", "latest", "--checkpoint-dir", f"{PLACE}/{place}"))
        expect(CLIENT.uploads(BUCKET, place) == [], "left by the next start")


@storage
def a_resume_survives_each_fault(folder):
    path = write(folder, "large.sexp", LARGE.format(4))
    wanted = digest_of(path, folder)
    here = os.path.join(folder, "here")
    good(run(path, "--steps", 2, "--checkpoint-dir", here))
    good(watched([CHECKPOINT_TOOL, "cp", f"{here}/step-2", f"{PLACE}/down"], SERVER.environment("checkpoint")))

    def one(case):
        kind, name = case
        with FaultProxy(SERVER.port) as proxy:
            proxy.fail(name, of=kind, after=GETS if kind == "get" else 0, bytes=1 << 20 if name != "cut-answer" else 600, seconds=0.1)
            out = os.path.join(folder, f"{kind}-{name}")
            good(run(path, "--resume", f"{PLACE}/down/step-2", "--checkpoint-dir", out, endpoint=proxy.endpoint))
            all_happened(proxy, [name], "resume " + kind)
        with open(os.path.join(out, "step-4", "experiment.json"), encoding="utf-8") as f:
            expect(json.load(f)["digest"] == wanted, case)

    cases = [("get", name) for name in DOWN] + [("list", name) for name in ("503", "truncate", "reset")]
    each(one, cases[::3] if QUICK else cases)


@storage
def data_is_read_through_each_fault(folder):
    raw = random.Random(3).randbytes(17 << 20)
    CLIENT.put(BUCKET, "bytes", raw)
    path = write(folder, "read.sexp", READ.format(write(folder, "bytes", raw)))
    wanted = values(good(run(path, "--metrics", "stdout")).stdout)
    write(folder, "read.sexp", READ.format(f"{PLACE}/bytes"))

    def one(case):
        kind, name = case
        with FaultProxy(SERVER.port) as proxy:
            proxy.fail(name, of=kind, bytes=600 if name == "cut-answer" else 2 << 20, seconds=0.1)
            got = values(good(run(path, "--metrics", "stdout", endpoint=proxy.endpoint)).stdout)
            all_happened(proxy, [name], "data " + kind)
        expect(got == wanted, name)

    cases = [("get", name) for name in ["flip", *DOWN]] + [("head", name) for name in ("500", "reset")]
    each(one, cases[::3] if QUICK else cases)


def hang(kind):
    """A server that takes a request and says nothing: the tool gives it up after 30 s and tries again."""
    with tempfile.TemporaryDirectory() as folder, FaultProxy(SERVER.port) as proxy:
        path, here, there = write(folder, "hang.sexp", LARGE.format(4)), os.path.join(folder, "here"), f"s3://{HANGING}/{kind}"
        wanted = digest_of(path, folder)
        if kind == "get":
            good(run(path, "--steps", 2, "--checkpoint-dir", here))
            good(watched([CHECKPOINT_TOOL, "cp", f"{here}/step-2", there], SERVER.environment("checkpoint")))
            proxy.fail("hang", of="get", after=GETS)
        else:
            proxy.fail("hang", of=kind)
        more = ["--resume", f"{there}/step-2"] if kind == "get" else []
        good(run(path, "--checkpoint-dir", there, *more, endpoint=proxy.endpoint))
        all_happened(proxy, ["hang"], kind)
        expect(json.loads(CLIENT.get(HANGING, f"{kind}/step-4/experiment.json"))["digest"] == wanted)


# ---- faults that never end -------------------------------------------------------------------------------

@storage
def what_never_ends_ends_the_run_with_a_code(folder):
    path = write(folder, "small.sexp", SMALL)
    good(run(path, "--steps", 2, "--checkpoint-dir", f"{PLACE}/there"))
    cases = [("put", name) for name in ("500", "503", "reset", "cut-request", "cut-answer")] + \
            [("get", name) for name in ("503", "reset", "truncate", "flip")] + [("list", "500")]
    codes = collections.Counter()

    def one(case):
        kind, name = case
        with FaultProxy(SERVER.port) as proxy:
            proxy.fail(name, of=kind, times=None, bytes=20)
            arguments = {"put": ["--steps", 2, "--checkpoint-dir", f"{PLACE}/never-{name}"], "get": ["--resume", f"{PLACE}/there/step-2"],
                         "list": ["--resume", "latest", "--checkpoint-dir", f"{PLACE}/there"]}[kind]
            result = run(path, *arguments, endpoint=proxy.endpoint)
            expect(result.returncode == (2 if name == "flip" else 4) and "E-" in result.stderr, case, result.returncode, result.stderr)
            expect(f"{PLACE}/" in result.stderr, case, result.stderr)
            codes[result.stderr.split("E-")[1].split("]")[0].split(":")[0].split(" ")[0]] += 1
            expect(proxy.failed[name] >= (1 if name == "flip" else 4), case, dict(proxy.failed))
            note(proxy, "endless " + kind)
        if kind == "put":
            expect(f"never-{name}/step-2/experiment.json" not in CLIENT.list(BUCKET), "a torn checkpoint looks whole")

    each(one, cases[::3] if QUICK else cases)
    print("codes of faults that do not end:", dict(codes))


@storage
def refusals_are_not_retried(folder):
    path = write(folder, "small.sexp", SMALL)
    with FaultProxy(SERVER.port) as proxy:
        env = {**SERVER.environment("checkpoint", endpoint=proxy.endpoint), "AWS_SECRET_ACCESS_KEY": "Wrong/Secret+of9many0letters1and2digits"}
        SECRETS.append(env["AWS_SECRET_ACCESS_KEY"])
        result = watched([RUN, "--resume", "latest", "--checkpoint-dir", f"{PLACE}/x", path], env)
        expect_failure(result, 4, "E-S3-007")
        expect(sum(proxy.requests.values()) <= 2, dict(proxy.requests))


# ---- a killed server, a killed tool ----------------------------------------------------------------------

def check_whole(prefix):
    """Without the project's code: what is listed is there, with its size and hash."""
    for name, row in record(prefix)["files"].items():
        raw = CLIENT.get(BUCKET, f"{prefix}/{name}")
        expect(len(raw) == row["size"] and "sha256:" + hashlib.sha256(raw).hexdigest() == row["sha256"], prefix, name)


@storage
def a_server_killed_during_an_upload_is_waited_for(folder):
    path = write(folder, "large.sexp", LARGE.format(2))
    wanted = digest_of(path, folder)
    for i, kind in enumerate(["part"] if QUICK else ["part", "begin", "complete", "put"]):
        with FaultProxy(SERVER.port) as proxy:
            proxy.fail("delay", of=kind, seconds=0.3)

            def kill():
                while not proxy.failed:
                    time.sleep(0.005)
                SERVER.restart()

            killer = threading.Thread(target=kill)
            killer.start()
            good(run(path, "--checkpoint-dir", f"{PLACE}/killed-{i}", endpoint=proxy.endpoint))
            killer.join()
            note(proxy, "server killed at " + kind)
        expect(record(f"killed-{i}/step-2")["digest"] == wanted)
        check_whole(f"killed-{i}/step-2")


def settled(place):
    """What is at the place once the server has done what a killed tool asked last."""
    before = None
    while (there := CLIENT.list(BUCKET, place + "/")) != before:
        before = there
        time.sleep(0.2)
    return there


@storage
def a_tool_killed_at_any_moment_leaves_nothing_wrong(folder):
    path = write(folder, "large.sexp", LARGE.format(4))
    wanted = digest_of(path, folder)
    begin = time.monotonic()
    good(run(path, "--checkpoint-dir", f"{PLACE}/timed"))
    lasts, chance = time.monotonic() - begin, random.Random(SEED)
    moments = [chance.uniform(0.3, 1.8) * lasts for _ in range(6 if QUICK else 25)]
    seen, lock = collections.Counter(), threading.Lock()
    other = write(folder, "other.sexp", LARGE.format(4).replace(":seed 3", ":seed 4"))
    good(run(other, "--checkpoint-dir", os.path.join(folder, "other")))

    def one(item):
        i, moment = item
        place, arguments = f"kill/{i}", [path, "--checkpoint-dir", f"{PLACE}/kill/{i}"]
        if i % 3 == 2:  # over the checkpoints of another run
            good(watched([CHECKPOINT_TOOL, "cp", os.path.join(folder, "other"), f"{PLACE}/{place}"], SERVER.environment("checkpoint")))
        process = subprocess.Popen([RUN, "--quiet", *arguments], env=environment(SERVER.environment("checkpoint")),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=moment)
        except subprocess.TimeoutExpired:
            process.kill()
        process.wait()
        there = settled(place)
        unfinished = CLIENT.uploads(BUCKET, place + "/")
        whole = [key for key in there if key.endswith("/experiment.json")]
        for key in whole:
            check_whole(key.rsplit("/", 1)[0])
        good(run(*arguments, *(["--resume", "latest"] if whole and i % 3 != 2 else [])))
        expect(record(f"{place}/step-4")["digest"] == wanted)
        expect(CLIENT.uploads(BUCKET, place + "/") == [], "left by the next start")
        with lock:
            seen["killed"] += process.returncode == -signal.SIGKILL
            seen["with an unfinished upload"] += bool(unfinished)
            seen["with a torn checkpoint"] += len({key.rsplit("/", 1)[0] for key in there}) > len(whole)
            seen["resumed"] += bool(whole) and i % 3 != 2
        CLIENT.empty(BUCKET, place + "/")

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(one, item) for item in enumerate(moments)]:
            future.result()
    print(f"killed at {len(moments)} moments:", dict(seen))
    expect(seen["killed"] > 0, dict(seen))


@storage
def a_killed_copy_goes_on(folder):
    path, here = write(folder, "large.sexp", LARGE.format(2)), os.path.join(folder, "here")
    good(run(path, "--checkpoint-dir", here))
    for i in range(2 if QUICK else 5):
        with FaultProxy(SERVER.port) as proxy:
            command = [CHECKPOINT_TOOL, "cp", f"{here}/step-2", f"{PLACE}/copy-{i}"]
            env = SERVER.environment("checkpoint", endpoint=proxy.endpoint)
            proxy.fail("delay", of="part", after=i % 3, times=None, seconds=2)
            process = subprocess.Popen(command, env=environment(env), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            until = time.monotonic() + 60
            while proxy.failed["delay"] == 0 and process.poll() is None:
                expect(time.monotonic() < until, "no part was sent")
                time.sleep(0.01)
            time.sleep(0.1)
            process.kill()
            process.wait()
            expect(f"copy-{i}/step-2/experiment.json" not in CLIENT.list(BUCKET))
            proxy.clear()
            good(watched(command, env))
            note(proxy, "copy")
        check_whole(f"copy-{i}/step-2")


@storage
def servers_that_hang_are_given_up(_):
    for future in waiting:
        future.result()


def say():
    for what in sorted({what for what, _ in tried}):
        print(f"faults during {what}:", ", ".join(f"{name} {n}" for (of, name), n in sorted(tried.items()) if of == what))
    print("requests through the proxy:", dict(asked))
    say_what_was_searched()


atexit.register(say)
CLIENT.make_bucket(HANGING)
waiting = [beside.submit(hang, kind) for kind in ([] if QUICK else ["part", "get"])]  # while the tests run
main()
