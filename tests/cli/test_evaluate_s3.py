#!/usr/bin/env python3
"""Evaluating offline from an object store: data and checkpoints there, a watch that polls, a server that goes and comes."""
import os, signal, subprocess, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *
from object_storage import *

EVALUATE = os.path.join(BUILD, "bin", "sexpgpu-evaluate")
SERVER = need_server()
PLACE = f"s3://{BUCKETS['checkpoint']}/runs/line"
TEXT = """(defdata d :source (csv "s3://%s/points.csv" :fields ((x [3] f32) (y f32))))
(defdata e :source (csv "s3://%s/held.csv" :fields ((x [3] f32) (y f32))))
(defun model (x) (reshape (matmul x (param "w" [3 1] :init (normal shape))) [(dim x 0)]))
(defrun line :seed 3 :data d :batch 5 :steps 12 :checkpoint-every 3 :optimizer (adam :lr 0.1) :loss (mse (model x) y))
(defeval held :run line :every 3 :data e :batch 4 :metrics (("loss" (mse (model x) y)) ("step" (cast (input :step) f32))))
""" % (BUCKETS["data"], BUCKETS["data"])


def rows(n):
    return "".join(f"{i * 7 % 11 / 5},{i * 5 % 13 / 7},{i * 3 % 17 / 9},{i % 6 / 3}\n" for i in range(n)).encode()


def prepare(folder):
    client(SERVER, "data").put(BUCKETS["data"], "points.csv", rows(41))
    client(SERVER, "data").put(BUCKETS["data"], "held.csv", rows(11))
    path = os.path.join(folder, "line.sexp")
    with open(path, "w") as f:
        f.write(TEXT)
    return path


def train(folder, *flags):
    result = watched([RUN, prepare(folder), "--quiet", "--checkpoint-dir", PLACE, "--metrics", "stdout", *flags], roles(SERVER))
    expect(result.returncode == 0, result.stderr)
    return evaluations(result.stdout)


def evaluations(text):
    return sorted(line for line in text.splitlines() if '"eval/' in line)


def evaluate(*arguments, env=None):
    return watched([EVALUATE, *arguments], {**roles(SERVER), **(env or {})})


@storage_test(SERVER)
def a_location_and_single_ones_equal_inline(folder):
    inline = train(folder)
    expect(len(inline) == 8, inline)
    for threads in (1, 3):
        result = evaluate(PLACE, "--metrics", "stdout", "--threads", threads)
        expect(result.returncode == 0 and evaluations(result.stdout) == inline, result.stderr, result.stdout)
    for name, step in ((f"{PLACE}/step-6", 6), (f"{PLACE}/latest", 12)):
        result = evaluate(name, "--metrics", "stdout")
        expect(evaluations(result.stdout) == [line for line in inline if f'"step": {step},' in line], name, result.stderr)
    result = evaluate(f"{PLACE}/step-4")
    expect(result.returncode in (1, 4) and "E-CKPT-" in result.stderr and "step-4" in result.stderr, result.stderr)
    expect_failure(evaluate(f"s3://{BUCKETS['checkpoint']}/nothing"), 2, "E-CKPT-050", "no complete checkpoint")
    expect_failure(evaluate(PLACE, env={"SEXPGPU_CHECKPOINT_AWS_REGION": ""}), 2, "REGION")
    client(SERVER, "data").put(BUCKETS["data"], "held.csv", rows(12))
    expect_failure(evaluate(PLACE), 2, "E-CKPT-043", "data e")


@storage_test(SERVER)
def torn_and_damaged_ones(folder):
    inline = train(folder)
    store, bucket = client(SERVER), BUCKETS["checkpoint"]
    keys = {key.split("runs/line/")[1]: key for key in store.list(bucket)}
    store.remove(bucket, keys["step-3/experiment.json"])
    raw = bytearray(store.get(bucket, keys["step-9/parameters.safetensors"]))
    raw[-1] ^= 1
    store.put(bucket, keys["step-9/parameters.safetensors"], bytes(raw))
    result = evaluate(PLACE, "--metrics", "stdout")
    expect_failure(result, 1, "E-CKPT-012", "1 failed")
    expect(evaluations(result.stdout) == [line for line in inline if '"step": 6,' in line or '"step": 12,' in line], result.stdout)


@storage_test(SERVER)
def a_watch_polls_and_outlives_the_server(folder):
    log = os.path.join(folder, "log.jsonl")
    status = os.path.join(folder, "status")
    watch = subprocess.Popen([EVALUATE, PLACE, "--watch", "--poll", "0.2", "--metrics", f"jsonl:{log}", "--status", status],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(roles(SERVER)))
    until = time.monotonic() + 60
    while not (os.path.exists(status) and '"waiting"' in open(status).read()):
        expect(time.monotonic() < until and watch.poll() is None, "it does not wait", watch.poll())
        time.sleep(0.05)
    inline = train(folder)
    _, words = watch.communicate(timeout=60)
    expect(watch.returncode == 0, words)
    with open(log) as f:
        text = f.read()
    expect(evaluations(text) == inline, text)
    no_secret("outputs", "the watch", words + text)


@storage_test(SERVER)
def a_watch_tries_again_while_the_server_is_away(folder):
    inline = train(folder)
    log = os.path.join(folder, "log.jsonl")
    env = {**roles(SERVER), "SEXPGPU_CHECKPOINT_AWS_ENDPOINT_URL": f"http://127.0.0.1:{swift.free_port()}"}
    away = subprocess.Popen([EVALUATE, PLACE, "--watch", "--poll", "0.2", "--metrics", f"jsonl:{log}"], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=environment(env))
    line = away.stderr.readline()
    expect("E-S3-005" in line and "trying again" in line, line)
    away.send_signal(signal.SIGTERM)
    _, words = away.communicate(timeout=60)
    expect(away.returncode == 128 + signal.SIGTERM and "E-S3-005" not in words, away.returncode, words)
    expect_failure(evaluate(PLACE, env=env), 4, "E-S3-005")
    result = evaluate(PLACE, "--watch", "--metrics", f"jsonl:{log}")
    with open(log) as f:
        expect(result.returncode == 0 and evaluations(f.read()) == inline, result.stderr)


try:
    main()
finally:
    SERVER.stop()
