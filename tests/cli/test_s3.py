#!/usr/bin/env python3
"""Object storage as a user meets it: checkpoints, data and weights on s3://, against a real S3 server."""
import atexit, hashlib, json, os, re, shutil, signal, struct, subprocess, sys, tarfile, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *
from checkpoints import safetensors, sha256
from object_storage import *
from fault_proxy import FaultProxy

SERVER = need_server(tls=True)
DATA, CHECKPOINTS = client(SERVER, "data"), client(SERVER, "checkpoint")
PLACE = f"s3://{BUCKETS['checkpoint']}"
SETS = f"s3://{BUCKETS['data']}"
ROLES = roles(SERVER)
CHECKPOINT_ONLY = SERVER.environment("checkpoint")
storage = storage_test(SERVER)
ADDRESSING = "SEXPGPU_AWS_ADDRESSING"
EVALUATE = os.path.join(BUILD, "bin", "sexpgpu-evaluate")


def run(*arguments, env=ROLES, **options):
    return watched([RUN, *arguments], env, **options)


def ck(*arguments, env=ROLES, **options):
    return watched([CHECKPOINT_TOOL, *arguments], env, **options)


def good(result):
    expect(result.returncode == 0, result.args, result.returncode, result.stderr[:800])
    return result.stdout


def write(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(content if isinstance(content, bytes) else content.encode())
    return path


def stored(prefix, bucket="checkpoint"):
    return json.loads(client(SERVER, bucket).get(BUCKETS[bucket], prefix + "/experiment.json"))


def steps(prefix):
    found = {key[len(prefix) + 1:].split("/")[0] for key in CHECKPOINTS.list(BUCKETS["checkpoint"], prefix + "/")}
    return sorted(int(name.split("-")[1]) for name in found)


def local(path):
    with open(os.path.join(path, "experiment.json"), encoding="utf-8") as f:
        return json.load(f)


# ---- checkpoints -----------------------------------------------------------------------------------------

@storage
def the_examples_stopped_between_on_storage_equal_the_examples(folder):
    names = ["linear", "digits"] if QUICK else ["linear", "digits", "fashion", "king-james"]
    subprocess.run(["sh", os.path.join(EXAMPLES, "king-james", "make-text.sh")], check=True)
    for name in names:
        path, out, place = os.path.join(EXAMPLES, name, f"{name}.sexp"), os.path.join(folder, name), f"{PLACE}/runs/{name}"
        whole = good(run(path, "--quiet", "--steps", 20, "--checkpoint-dir", out, "--metrics", "stdout"))
        first = good(run(path, "--quiet", "--steps", 10, "--checkpoint-dir", place, "--metrics", "stdout"))
        second = good(run(path, "--quiet", "--steps", 20, "--checkpoint-dir", place, "--resume", "latest", "--metrics", "stdout",
                          "--threads", 3))
        at = lambda text, low, high: [line for line in values(text) if low < json.loads(line)["step"] <= high]
        expect(at(whole, 10, 20) == at(second, 10, 20), name)
        expect([v for v in at(whole, 0, 10) if "train/" in v] == [v for v in at(first, 0, 10) if "train/" in v], name)
        expect(stored(f"runs/{name}/step-20")["digest"] == local(f"{out}/step-20")["digest"], name)
        for file in ("parameters.safetensors", "states.safetensors"):
            with open(f"{out}/step-20/{file}", "rb") as f:
                expect(CHECKPOINTS.get(BUCKETS["checkpoint"], f"runs/{name}/step-20/{file}") == f.read(), name, file)
        expect(steps(f"runs/{name}") == [10, 20])


STEPS = """(defrun r :seed 3 :steps 12 :checkpoint-every 2 {} :loss (let ((w (param "w" [5] :init (normal shape)))) (sum (* w w)))
  :optimizer (adam :lr 0.1))"""


@storage
def resume_takes_latest_or_a_step_and_keeps_as_many_as_it_is_told(folder):
    path = write(os.path.join(folder, "e.sexp"), STEPS.format(":checkpoint-keep 3"))
    good(run(path, "--quiet", "--checkpoint-dir", f"{PLACE}/keep"))
    expect(steps("keep") == [8, 10, 12], steps("keep"))
    digest = stored("keep/step-12")["digest"]
    CHECKPOINTS.remove(BUCKETS["checkpoint"], "keep/step-12/experiment.json")
    result = run(path, "--checkpoint-dir", f"{PLACE}/keep", "--resume", "latest")
    expect(result.returncode == 0 and "step-12 is torn" in result.stderr, result.stderr)
    expect(stored("keep/step-12")["digest"] == digest)
    good(run(path, "--quiet", "--checkpoint-dir", f"{PLACE}/other", "--resume", f"{PLACE}/keep/step-8"))
    expect(stored("other/step-12")["digest"] == digest)
    good(run(path, "--quiet", "--checkpoint-dir", os.path.join(folder, "here"), "--resume", f"{PLACE}/keep/step-8"))
    expect(local(os.path.join(folder, "here", "step-12"))["digest"] == digest)
    shutil.rmtree(os.path.join(folder, "here", "step-12"))
    good(run(path, "--quiet", env={**ROLES, "SEXPGPU_CHECKPOINT_DIR": f"{PLACE}/there/",
                                   "SEXPGPU_RESUME": os.path.join(folder, "here", "step-10")}))
    expect(stored("there/step-12")["digest"] == digest)
    expect_failure(run(path, "--resume", "latest", "--checkpoint-dir", f"{PLACE}/none"), 2, "E-CKPT-015", f"{PLACE}/none")
    expect_failure(run(path, "--resume", f"{PLACE}/keep/step-6"), 4, "E-CKPT-030", f"{PLACE}/keep/step-6")
    expect_failure(run(path, "--checkpoint-dir", "s3://no-such-bucket/x"), 4, "E-S3-", "no-such-bucket")


@storage
def a_flipped_bit_on_storage_is_found(folder):
    path = write(os.path.join(folder, "e.sexp"), STEPS.format(""))
    good(run(path, "--quiet", "--steps", 2, "--checkpoint-dir", f"{PLACE}/bit"))
    for name in ("parameters.safetensors", "states.safetensors", "experiment.json"):
        key = f"bit/step-2/{name}"
        whole = CHECKPOINTS.get(BUCKETS["checkpoint"], key)
        at = len(whole) - 9 if name != "experiment.json" else len(whole) // 2
        CHECKPOINTS.put(BUCKETS["checkpoint"], key, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
        expect_failure(run(path, "--resume", f"{PLACE}/bit/step-2"), 2, "E-", f"{PLACE}/bit/step-2")
        expect(ck("verify", f"{PLACE}/bit/step-2").returncode in (1, 2), name)
        CHECKPOINTS.put(BUCKETS["checkpoint"], key, whole)
    good(ck("verify", f"{PLACE}/bit/step-2"))


@storage
def a_signal_writes_a_checkpoint_to_resume_from(folder):
    path = write(os.path.join(folder, "e.sexp"), STEPS.format("").replace(":steps 12 :checkpoint-every 2", ":steps 1000000 :checkpoint-every 500"))
    process = subprocess.Popen([RUN, path, "--quiet", "--checkpoint-dir", f"{PLACE}/signal"], env=environment(CHECKPOINT_ONLY),
                               stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not any(key.endswith("/experiment.json") for key in CHECKPOINTS.list(BUCKETS["checkpoint"], "signal/")):
        expect(process.poll() is None and time.monotonic() < until, "no checkpoint came")
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    expect(process.wait(timeout=60) == 128 + signal.SIGTERM)
    last = steps("signal")[-1]
    good(run(path, "--quiet", "--steps", last + 3, "--checkpoint-dir", f"{PLACE}/signal", "--resume", "latest"))
    good(run(path, "--quiet", "--steps", last + 3, "--checkpoint-dir", f"{folder}/straight"))
    expect(stored(f"signal/step-{last + 3}")["digest"] == local(f"{folder}/straight/step-{last + 3}")["digest"])


@storage
def uploads_of_others_are_left_alone(folder):
    path, bucket = write(os.path.join(folder, "e.sexp"), STEPS.format("")), BUCKETS["checkpoint"]
    others = ["other.bin", "run/other.bin", "run/step-2/other.bin", "run/deeper/step-2/parameters.safetensors", "run-2/step-2/parameters.safetensors"]
    own = "run/step-2/parameters.safetensors"
    for key in [*others, own]:
        CHECKPOINTS.put_part(bucket, key, CHECKPOINTS.begin_upload(bucket, key), 1, b"part")
    good(run(path, "--quiet", "--steps", 2, "--checkpoint-dir", f"{PLACE}/run"))
    expect(sorted(key for key, _ in CHECKPOINTS.uploads(bucket)) == sorted(others), CHECKPOINTS.uploads(bucket))
    CHECKPOINTS.empty(bucket)


# ---- offline evaluation ----------------------------------------------------------------------------------

def evaluated(text):
    return sorted(line for line in values(text) if '"eval/' in line)


def make_evaluation(folder):
    make_data(os.path.join(folder, "sets"))
    upload(os.path.join(folder, "sets"), "s")
    source = '(csv "%s/s/points.csv" :fields ((x [3] f32) (y f32)))' % SETS
    return write(os.path.join(folder, "e.sexp"), f"""(defdata d :source {source} :order shuffled)
        (defun loss-of (x y) {LINE})
        (defrun r :seed 1 :data d :batch 3 :steps 12 :checkpoint-every 3 :loss (loss-of x y) :optimizer (sgd :lr 0.1))
        (defeval held :run r :every 3 :data d :batch 7 :metrics (("loss" (loss-of x y))))""")


@storage
def offline_evaluation_of_storage_equals_inline(folder):
    path = make_evaluation(folder)
    inline = good(run(path, "--quiet", "--checkpoint-dir", f"{PLACE}/evaluate", "--metrics", "stdout"))
    os.remove(path)
    offline = good(watched([EVALUATE, f"{PLACE}/evaluate", "--quiet", "--metrics", "stdout"], ROLES))
    bits = lambda text: [(r["name"], r["step"], r["bits"]) for r in map(json.loads, evaluated(text))]
    expect(len(bits(inline)) == 4 and bits(offline) == bits(inline), bits(offline), bits(inline))
    one = good(watched([EVALUATE, f"{PLACE}/evaluate/step-6", "--quiet", "--metrics", "stdout"], ROLES))
    expect(bits(one) == [row for row in bits(inline) if row[1] == 6])
    path = make_evaluation(folder)
    watch = subprocess.Popen([EVALUATE, f"{PLACE}/watch", "--watch", "--poll", "0.2", "--metrics", f"jsonl:{folder}/log.jsonl"],
                             env=environment(ROLES), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    good(run(path, "--quiet", "--checkpoint-dir", f"{PLACE}/watch"))
    said = watch.communicate(timeout=60)
    expect(watch.returncode == 0, said)
    for text in said:
        no_secret("outputs", "the watch's words", text)
    with open(f"{folder}/log.jsonl", encoding="utf-8") as f:
        expect(sorted(bits(f.read())) == sorted(bits(inline)))


# ---- data and weights ------------------------------------------------------------------------------------

LINE = '(mse (reshape (matmul x (param "w" [3 1] :init (ones shape))) [(dim x 0)]) y)'
SOURCES = {  # run -> source, loss
    "csv": ('(csv (path base "points.csv") :fields ((x [3] f32) (y f32)))', LINE),
    "gz": ('(csv (path base "points.csv.gz") :fields ((x [3] f32) (y f32)))', LINE),
    "tensors": ('(arrays (path base "points.safetensors"))', LINE),
    "npz": ('(arrays (path base "points.npz"))', LINE),
    "npy": ('(arrays (path base "x.npy"))', '(mean (* x (param "w" [3] :init (ones shape))))'),
    "windows": ('(windows (path base "text") :dtype u8 :length 9 :stride 4 :field t)',
                '(mean (* (/ (cast t f32) 128) (param "w" [9] :init (ones shape))))'),
    "idx": ('(idx (x (path base "images-idx")) (y (path base "labels-idx")))',
            '(mse (matmul (/ (cast x f32) 255) (param "w" [4] :init (ones shape))) (cast y f32))'),
    "shards": ('(manifest (path base "shards.json"))', '(mean (* (/ (cast t f32) 128) (param "w" [8] :init (ones shape))))')}


def make_data(folder):
    import gzip, numpy
    table = numpy.array([[i * 7 % 11 / 8, i * 5 % 13 / 8, i * 3 % 17 / 8, i % 6 / 4] for i in range(40)], dtype="<f4")
    text = "".join(",".join(map(str, row)) + "\n" for row in table.tolist()).encode()
    write(f"{folder}/points.csv", text)
    write(f"{folder}/points.csv.gz", gzip.compress(text, mtime=0))
    x, y = table[:, :3].copy(), table[:, 3].copy()
    write(f"{folder}/points.safetensors", safetensors({"x": ("f32", [40, 3], x.tobytes()), "y": ("f32", [40], y.tobytes())}))
    numpy.savez(f"{folder}/points.npz", x=x, y=y)
    numpy.save(f"{folder}/x.npy", x)
    letters = bytes(32 + i * i % 90 for i in range(400))
    write(f"{folder}/text", letters)
    write(f"{folder}/images-idx", b"\0\0\x08\x02" + struct.pack(">II", 40, 4) + letters[:160])
    write(f"{folder}/labels-idx", b"\0\0\x08\x01" + struct.pack(">I", 40) + bytes(i % 3 for i in range(40)))
    shards = [letters[:240], letters[100:340]]
    for i, shard in enumerate(shards):
        write(f"{folder}/part/{i}.bin", shard)
    write(f"{folder}/shards.json", json.dumps({
        "record": "data-manifest", "version": 1, "kind": "windows", "dtype": "u8", "length": 8, "stride": 8, "field": "t",
        "shards": [{"path": f"part/{i}.bin", "size": len(shard), "sha256": sha256(shard)} for i, shard in enumerate(shards)]}))


def upload(folder, prefix):
    """name -> (size, ETag)"""
    found = {}
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            with open(path, "rb") as f:
                raw = f.read()
            found[os.path.relpath(path, folder)] = (len(raw), DATA.put(BUCKETS["data"], f"{prefix}/{os.path.relpath(path, folder)}", raw))
    return found


def source_experiment(folder):
    return write(os.path.join(folder, "e.sexp"), '(defknob base "sets")\n' + "\n".join(
        f"(defdata {name} :source {source} :order shuffled)\n"
        f"(defrun {name} :seed 1 :data {name} :batch 3 :microbatches 2 :steps 8 :checkpoint-every 4 :loss {loss} :optimizer (sgd :lr 0.1))"
        for name, (source, loss) in SOURCES.items()))


@storage
def data_on_storage_gives_the_bits_of_local_data(folder):
    make_data(os.path.join(folder, "sets"))
    found = upload(os.path.join(folder, "sets"), "the sets")
    path, base = source_experiment(folder), f"{SETS}/the sets"
    for name in SOURCES:
        here = good(run(path, "--quiet", "--run", name, "--metrics", "stdout", "--digest", "every=1", "--checkpoint-dir", f"{folder}/{name}"))
        there = good(run(path, "--quiet", "--run", name, "--metrics", "stdout", "--digest", "every=1", "--set", f"base={base}",
                         "--checkpoint-dir", f"{PLACE}/{name}"))
        expect(values(here) == values(there) and len(values(here)) > 8, name)
        a, b = local(f"{folder}/{name}/step-8"), stored(f"{name}/step-8")
        expect(a["digest"] == b["digest"], name)
        expect(len(a["data"]) == len(b["data"]) > 0)
        for row in b["data"]:
            expect(row["source"].startswith(base + "/"), row)
            size, etag = found[row["source"][len(base) + 1:]]
            expect(row["size"] == size and row["version"].strip('"') == etag, row, etag)
        resumed = good(run(path, "--quiet", "--run", name, "--metrics", "stdout", "--digest", "every=1", "--set", f"base={base}",
                           "--resume", f"{PLACE}/{name}/step-4"))
        expect(values(resumed) == [v for v in values(there) if json.loads(v)["step"] > 4], name)


@storage
def a_resume_refuses_data_that_changed(folder):
    make_data(os.path.join(folder, "sets"))
    upload(os.path.join(folder, "sets"), "s")
    path, base = source_experiment(folder), f"base={SETS}/s"
    for name, key in (("csv", "points.csv"), ("windows", "text"), ("shards", "part/1.bin")):
        good(run(path, "--quiet", "--run", name, "--set", base, "--steps", 4, "--checkpoint-dir", f"{PLACE}/{name}"))
        raw = DATA.get(BUCKETS["data"], f"s/{key}")
        DATA.put(BUCKETS["data"], f"s/{key}", raw[:-2] + bytes([raw[-2] ^ 1]) + raw[-1:])
        result = run(path, "--run", name, "--set", base, "--resume", f"{PLACE}/{name}/step-4")
        if name == "shards":  # the manifest's own hash says it first
            expect(result.returncode == 2 and "E-" in result.stderr, result.stderr)
        else:
            expect_failure(result, 2, "E-CKPT-043", f"data {name}")
        DATA.put(BUCKETS["data"], f"s/{key}", raw)
        good(run(path, "--quiet", "--run", name, "--set", base, "--resume", f"{PLACE}/{name}/step-4"))
    expect_failure(run(path, "--run", "csv", "--set", f"base={SETS}/nowhere"), 4, "E-DATA-101", f"{SETS}/nowhere/points.csv")


LOAD = """(defknob file "w.safetensors")
(defrun single :seed 1 :steps 4 :checkpoint-every 2 :optimizer (sgd :lr 0.1)
  :loss (let ((w (param "w" [2 3] :load (weights file "a/w")))) (sum (* w w))))
(defrun narrow :seed 1 :steps 4 :checkpoint-every 2 :optimizer (sgd :lr 0.1)
  :loss (let ((h (cast (param "h" [4] :dtype bf16 :load (weights file)) f32)) (f (cast (param "f" [4] :dtype f16 :load (weights file)) f32)))
    (sum (* h f))))
(defrun widened :seed 1 :steps 4 :checkpoint-every 2 :optimizer (sgd :lr 0.1)
  :loss (sum (* (param "h" [4] :load (weights file "h" :dtype bf16)) (param "f" [4] :load (weights file "f" :dtype f16)))))"""


@storage
def weights_are_loaded_from_storage(folder):
    half = ("f16", [4], struct.pack("<4e", 1, 2, -3, 0.5))
    brain = ("bf16", [4], struct.pack("<4H", 0x3f80, 0x4000, 0xc040, 0x3f00))
    matrix = ("f32", [2, 3], struct.pack("<6f", *range(6)))
    one = safetensors({"a/w": matrix, "h": brain, "f": half})
    write(f"{folder}/w.safetensors", one)
    shards = {"m-1.safetensors": {"a/w": matrix}, "m-2.safetensors": {"h": brain, "f": half}}
    DATA.put(BUCKETS["data"], "models/w.safetensors", one)
    for name, tensors in shards.items():
        DATA.put(BUCKETS["data"], f"models/{name}", safetensors(tensors))
    index = {"metadata": {}, "weight_map": {path: name for name, tensors in shards.items() for path in tensors}}
    DATA.put(BUCKETS["data"], "models/m.safetensors.index.json", json.dumps(index).encode())
    path = write(f"{folder}/e.sexp", LOAD)
    for name in ("single", "narrow", "widened"):
        here = good(run(path, "--quiet", "--run", name, "--metrics", "stdout", "--checkpoint-dir", f"{folder}/{name}"))
        for file in ("w.safetensors", "m.safetensors.index.json"):
            place = f"{PLACE}/{name}-{file[0]}"
            there = good(run(path, "--quiet", "--run", name, "--set", f"file={SETS}/models/{file}", "--metrics", "stdout",
                             "--checkpoint-dir", place))
            expect(values(here) == values(there), name, file)
            record = stored(f"{name}-{file[0]}/step-4")
            expect(record["digest"] == local(f"{folder}/{name}/step-4")["digest"])
            for parameter in record["parameters"]:
                load = parameter["load"]
                expect(load["file"].startswith(f"{SETS}/models/") and load["size"] > 0 and load["version"], load)
                if file[0] == "w":
                    expect(load["version"].strip('"') == hashlib.md5(one).hexdigest() and load["size"] == len(one), load)
    changed = safetensors({"a/w": ("f32", [2, 3], struct.pack("<6f", *range(1, 7))), "h": brain, "f": half})
    DATA.put(BUCKETS["data"], "models/w.safetensors", changed)
    expect_failure(run(path, "--run", "single", "--set", f"file={SETS}/models/w.safetensors", "--resume", f"{PLACE}/single-w/step-2"),
                   2, "E-LOAD-001", "w")
    DATA.remove(BUCKETS["data"], "models/m-2.safetensors")
    expect_failure(run(path, "--run", "narrow", "--set", f"file={SETS}/models/m.safetensors.index.json"), 4, "E-DATA-101",
                   f"{SETS}/models/m-2.safetensors")


# ---- credentials, addressing, TLS ------------------------------------------------------------------------

@storage
def each_role_has_its_own_credentials(folder):
    make_data(os.path.join(folder, "sets"))
    upload(os.path.join(folder, "sets"), "s")
    path = source_experiment(folder)
    arguments = [path, "--run", "csv", "--quiet", "--set", f"base={SETS}/s", "--checkpoint-dir", f"{PLACE}/roles"]
    good(run(*arguments))
    data, checkpoint = SERVER.environment("data"), SERVER.environment("checkpoint")
    good(run(*arguments, env={**data, **SERVER.environment("checkpoint", "SEXPGPU_CHECKPOINT_AWS_")}))
    good(run(*arguments, env={**SERVER.environment("checkpoint", "SEXPGPU_AWS_"), **SERVER.environment("data", "SEXPGPU_DATA_AWS_")}))
    wrong = {**SERVER.environment("checkpoint", "SEXPGPU_AWS_"), **data}  # the shared name wins over AWS_
    expect(run(*arguments, env=wrong).returncode in (2, 4))
    expect(run(*arguments, env=data).returncode == 4)
    expect(run(*arguments, env=checkpoint).returncode in (2, 4))
    one = {**data, **{f"SEXPGPU_CHECKPOINT_{k}": v for k, v in checkpoint.items() if k.endswith(("ID", "KEY"))}}
    good(run(*arguments, env=one))  # each value on its own: region and endpoint are AWS_'s


@storage
def what_is_missing_is_named_before_the_first_step(folder):
    path = write(os.path.join(folder, "e.sexp"), STEPS.format(""))
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "REGION", "ENDPOINT_URL"):
        env = {k: v for k, v in CHECKPOINT_ONLY.items() if not k.endswith(name)}
        result = run(path, "--checkpoint-dir", f"{PLACE}/missing", "--metrics", "stdout", env=env)
        expect(result.returncode in (2, 4) and f"AWS_{name}" in result.stderr and "E-" in result.stderr, name, result.stderr)
        expect(not values(result.stdout), "a step was made")
        result = ck("ls", f"{PLACE}/missing", env=env)
        expect(result.returncode in (2, 4) and f"AWS_{name}" in result.stderr, name, result.stderr)
    expect(CHECKPOINTS.list(BUCKETS["checkpoint"]) == {})


@storage
def tls_is_verified(folder):
    path = write(os.path.join(folder, "e.sexp"), STEPS.format(""))
    env = SERVER.environment("checkpoint", tls=True)
    good(run(path, "--quiet", "--checkpoint-dir", f"{PLACE}/tls", env=env))
    good(ck("verify", f"{PLACE}/tls/step-12", env=env))
    without = {k: v for k, v in env.items() if k != "AWS_CA_BUNDLE"}
    expect_failure(run(path, "--checkpoint-dir", f"{PLACE}/tls2", env=without), 4, "E-S3-006")
    result = ck("verify", f"{PLACE}/tls/step-12", env=without)
    expect(result.returncode == 4 and "E-S3-006" in result.stdout + result.stderr, result)
    other = os.path.join(folder, "other.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                    os.devnull, "-out", other, "-days", "2", "-subj", "/CN=another"], check=True, capture_output=True)
    expect_failure(run(path, "--checkpoint-dir", f"{PLACE}/tls2", env={**env, "AWS_CA_BUNDLE": other}), 4, "E-S3-006")
    name = {**env, "AWS_ENDPOINT_URL": f"https://elsewhere.localhost:{SERVER.tls_port}"}  # not in the certificate
    expect_failure(run(path, "--checkpoint-dir", f"{PLACE}/tls2", env=name), 4, "E-S3-006")
    expect(not any(key.startswith("tls2") for key in CHECKPOINTS.list(BUCKETS["checkpoint"])))


@storage
def wrong_credentials_are_refused_without_showing_them(folder):
    path = write(os.path.join(folder, "e.sexp"), STEPS.format(""))
    secret = "Wrong/Secret+that0is1not2the3right4one5here"
    SECRETS.append(secret)
    wrong = {**CHECKPOINT_ONLY, "AWS_SECRET_ACCESS_KEY": secret}
    status = os.path.join(folder, "status.json")
    result = run(path, "--checkpoint-dir", f"{PLACE}/wrong", "--status", status, "--metrics", f"jsonl:{folder}/m.jsonl", "--explain",
                 env=wrong)
    expect_failure(result, 4, "E-S3-007")
    expect_failure(ck("ls", f"{PLACE}/wrong", env=wrong), 4, "E-S3-007")


@storage
def a_session_token_is_sent_and_signed(folder):
    path = write(os.path.join(folder, "e.sexp"), STEPS.format(""))
    with FaultProxy(SERVER.port) as proxy:
        for i, name in enumerate(("AWS_SESSION_TOKEN", "SEXPGPU_AWS_SESSION_TOKEN", "SEXPGPU_CHECKPOINT_AWS_SESSION_TOKEN")):
            proxy.clear()
            env = {**SERVER.environment("checkpoint", endpoint=proxy.endpoint), name: TOKEN}
            good(run(path, "--quiet", "--checkpoint-dir", f"{PLACE}/token-{i}", env=env))
            expect(len(proxy.seen) > 10)
            for request in proxy.seen:
                expect(request.headers.get("x-amz-security-token") == TOKEN, request)
                expect("x-amz-security-token" in request.headers["authorization"], request)


@storage
def buckets_are_addressed_by_host_name_or_path(folder):
    path = write(os.path.join(folder, "e.sexp"), STEPS.format(""))
    with FaultProxy(SERVER.port) as proxy:
        for style in ("path", "virtual"):
            proxy.clear()
            env = {**SERVER.environment("checkpoint", endpoint=proxy.endpoint), ADDRESSING: style}
            good(run(path, "--quiet", "--checkpoint-dir", f"{PLACE}/{style}", env=env))
            good(ck("verify", f"{PLACE}/{style}/step-12", env=env))
            bucket = BUCKETS["checkpoint"]
            for request in proxy.seen:
                expect(request.headers["host"].startswith(bucket + ".") == (style == "virtual"), request)
                expect(request.target.startswith(f"/{bucket}") == (style == "path"), request)
    env = {**SERVER.environment("checkpoint", tls=True), ADDRESSING: "virtual"}
    good(ck("verify", f"{PLACE}/virtual/step-12", env=env))
    expect(steps("virtual") == steps("path") == [2, 4, 6, 8, 10, 12])


ODD = ["a b", "a+b", "50%", "%2F", "ü/é-漢", "a//b", "'q\" ", "what?x=1&y", "#1", "~*()!$;:@,", "\\n"]


@storage
def odd_names_are_those_of_the_keys(folder):
    rows = b"1,2,3,0.5\n" * 6
    for name in ODD[::2] if QUICK else ODD:
        DATA.put(BUCKETS["data"], name + ".csv", rows)
        text, place = json.dumps(f"{SETS}/{name}.csv", ensure_ascii=False), f"{PLACE}/{name}"
        path = write(os.path.join(folder, "e.sexp"), f"""(defdata d :source (csv {text} :fields ((x [3] f32) (y f32))))
            (defrun r :seed 1 :data d :batch 2 :steps 2 :checkpoint-every 1 :loss {LINE} :optimizer (sgd :lr 0.1))""")
        good(run(path, "--quiet", "--steps", 1, "--checkpoint-dir", place))
        found = [key for key in CHECKPOINTS.list(BUCKETS["checkpoint"]) if key.startswith(name + "/step-1/")]
        expect(len(found) == 3, name, CHECKPOINTS.list(BUCKETS["checkpoint"]))
        good(run(path, "--quiet", "--checkpoint-dir", place, "--resume", "latest"))
        expect(len(good(ck("ls", place)).splitlines()) >= 2, name)
    path = write(os.path.join(folder, "e.sexp"), STEPS.format(""))
    for name in ("s3://", "s3:///key", "s3://a b/x"):
        result = run(path, "--checkpoint-dir", name)
        expect(result.returncode in (2, 4) and "E-S3-" in result.stderr, name, result.stderr)


# ---- sexpgpu-checkpoint ----------------------------------------------------------------------------------

@storage
def every_command_reads_storage(folder):
    path, here, there = write(os.path.join(folder, "e.sexp"), STEPS.format("")), os.path.join(folder, "here"), f"{PLACE}/there"
    good(run(path, "--quiet", "--checkpoint-dir", here))
    good(run(path, "--quiet", "--checkpoint-dir", there))
    for command in (["show"], ["show", "--json"], ["digest"], ["digest", "--recorded"], ["choices"], ["tensors"], ["tensors", "--json"],
                    ["get"]):
        more = ["w"] if command == ["get"] else []
        a, b = ck(*command, f"{here}/step-4", *more), ck(*command, f"{there}/step-4", *more)
        same = lambda result, place: re.sub(r"20\d\d-[-0-9T:]+Z|\d\d:\d\d:\d\d", "T", result.raw.decode("latin-1").replace(place, "PLACE"))
        expect(a.returncode == b.returncode == 0, command, b.stderr)
        if command[0] != "show":
            expect(same(a, here) == same(b, there), command, a.stdout[:500], b.stdout[:500])
    good(ck("verify", f"{there}/step-2", f"{there}/latest"))
    expect(stored("there/step-12")["digest"] in good(ck("show", f"{there}/latest")))
    good(ck("diff", f"{here}/step-4", f"{there}/step-4"))
    expect(ck("diff", f"{here}/step-4", f"{there}/step-6").returncode == 1)
    CHECKPOINTS.remove(BUCKETS["checkpoint"], "there/step-8/experiment.json")
    listed = [json.loads(line) for line in good(ck("ls", "--json", there)).splitlines()]
    expect([row["step"] for row in listed] == [2, 4, 6, 8, 10, 12], listed)
    expect("torn" in good(ck("ls", there)))
    good(ck("prune", there, "--keep", 2, "--dry-run"))
    expect(len(steps("there")) == 6)
    good(ck("prune", there, "--keep", 2))
    expect(steps("there") == [10, 12], steps("there"))


@storage
def copies_between_places_are_verified_and_go_on(folder):
    path, here = write(os.path.join(folder, "e.sexp"), STEPS.format("")), os.path.join(folder, "here")
    good(run(path, "--quiet", "--steps", 6, "--checkpoint-dir", here))
    back = os.path.join(folder, "back")
    for source, target in ((here, f"{PLACE}/a"), (f"{PLACE}/a", f"{PLACE}/b"), (f"{PLACE}/b", back)):
        good(ck("cp", source, target))
        good(ck("cp", source, target))  # what is there already is left alone
    for step in (2, 4, 6):
        for name in os.listdir(f"{here}/step-{step}"):
            with open(f"{here}/step-{step}/{name}", "rb") as f, open(f"{back}/step-{step}/{name}", "rb") as g:
                raw = f.read()
                expect(raw == g.read() == CHECKPOINTS.get(BUCKETS["checkpoint"], f"b/step-{step}/{name}"), step, name)
    key = "a/step-4/parameters.safetensors"
    CHECKPOINTS.put(BUCKETS["checkpoint"], key, CHECKPOINTS.get(BUCKETS["checkpoint"], key)[:-1] + b"\x55")
    expect_failure(ck("cp", f"{PLACE}/a/step-4", f"{PLACE}/c"), 1, "E-CKPT-012")
    expect(not any(name.startswith("c/step-4/experiment") for name in CHECKPOINTS.list(BUCKETS["checkpoint"])))
    CHECKPOINTS.remove(BUCKETS["checkpoint"], "b/step-2/experiment.json")
    good(ck("cp", f"{here}/step-2", f"{PLACE}/b"))
    good(ck("verify", f"{PLACE}/b/step-2"))
    seed = write(os.path.join(folder, "other.sexp"), STEPS.format("").replace(":seed 3", ":seed 4"))
    good(run(seed, "--quiet", "--steps", 2, "--checkpoint-dir", f"{PLACE}/d"))
    expect_failure(ck("cp", f"{here}/step-2", f"{PLACE}/d"), 2, "E-CKPT-031")
    good(ck("cp", "--replace", f"{here}/step-2", f"{PLACE}/d"))
    good(ck("diff", f"{here}/step-2", f"{PLACE}/d/step-2"))


@storage
def a_bundle_of_storage_resumes_elsewhere(folder):
    os.makedirs(f"{folder}/project")
    path = write(f"{folder}/project/e.sexp", STEPS.format(""))
    good(run(path, "--quiet", "--checkpoint-dir", f"{PLACE}/bundle"))
    out = os.path.join(folder, "out.tar")
    good(ck("bundle", f"{PLACE}/bundle/step-4", out, "--root", f"{folder}/project"))
    shutil.rmtree(f"{folder}/project")
    with tarfile.open(out) as tar:
        tar.extractall(f"{folder}/elsewhere")
    top = os.path.join(folder, "elsewhere", os.listdir(f"{folder}/elsewhere")[0])
    files = [os.path.join(where, name) for where, _, names in os.walk(top) for name in names]
    again = next(file for file in files if file.endswith(".sexp"))
    step = os.path.dirname(next(file for file in files if file.endswith("experiment.json")))
    good(run(again, "--quiet", "--resume", step, "--checkpoint-dir", f"{PLACE}/again"))
    expect(stored("again/step-12")["digest"] == stored("bundle/step-12")["digest"])


atexit.register(say_what_was_searched)
main()
