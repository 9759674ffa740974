#!/usr/bin/env python3
"""sexpgpu-doctor on machines that are well and on such as are not: a line each, JSON, exit statuses. An HTTP server on
loopback stands for endpoints that are wrong in ways that a real one cannot be made to be."""
import ctypes, email.utils, http.server, os, shlex, shutil, socket, subprocess, sys, threading, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *

DOCTOR = os.path.join(BUILD, "bin", "sexpgpu-doctor")
NAMES = ["cpu", "memory", "store", "cache", "s3 data", "s3 checkpoint", "clock", "scratch", "environment", "bits"]
FOREIGN = ("CUBLAS", "CUDA_", "NCCL_", "NVIDIA_TF32", "OMP_", "GLIBC_TUNABLES", "TMPDIR", "XDG_", "HOME", "LD_LIBRARY_PATH")
SECRET = "a-secret-never-printed-0123456789"
S3 = {"AWS_ACCESS_KEY_ID": "KEY", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "somewhere"}
BUCKETS = b"<ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>"


def clean(folder, extra=None):
    base = {name: value for name, value in environment().items() if not name.startswith(FOREIGN)}
    scratch = os.path.join(ROOT, "build")
    return {**base, "HOME": folder, "TMPDIR": scratch if os.path.isdir(scratch) else "/tmp", **(extra or {})}


def call(folder, *arguments, env=None, program=DOCTOR, drop=()):
    whole = {name: value for name, value in clean(folder, env).items() if name not in drop}
    result = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120, env=whole)
    expect(SECRET not in result.stdout + result.stderr, "a secret is shown")
    return result


def look(folder, env=None, status=None, **options):
    """The findings by name; of the libraries, which have one name, the last."""
    result = call(folder, "--json", env=env, **options)
    expect(not result.stderr, result.stderr)
    found = json.loads(result.stdout)
    expect(not schema_errors("doctor.json", [found]), schema_errors("doctor.json", [found]))
    states = [f["state"] for f in found["findings"]]
    expect(result.returncode == (1 if "fail" in states else 0), result.returncode, states)
    expect(found["state"] == next(s for s in ("fail", "warn", "ok") if s in states or s == "ok"), found["state"], states)
    expect(status is None or result.returncode == status, result.returncode, found)
    return {f["name"]: f for f in found["findings"]}


def expect_finding(found, name, state, *words):
    line = found[name]
    expect(line["state"] == state, name, line)
    for word in words:
        expect(word in line["found"] + "; " + (line["advice"] or ""), repr(word), "not in", line)
    expect(state == "ok" or line["advice"], "no advice:", line)


class Server:
    """Answers every GET alike, with a clock that is `ahead` seconds ahead."""

    def __init__(self, status=200, body=BUCKETS, ahead=0):
        requests = self.requests = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                requests.append((self.path, self.headers.get("Authorization", "")))
                self.send_response_only(status)
                if ahead is not None:
                    self.send_header("Date", email.utils.formatdate(time.time() + ahead, usegmt=True))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


# ---- the whole ----

@test
def says_a_line_each(folder):
    result = call(folder)
    lines = result.stdout.splitlines()
    expect(result.returncode == 0 and not result.stderr, result)
    names = [line[6:19].strip() for line in lines]
    expect([n for n in names if n != "cuda"] == NAMES, names)
    expect(all(line[:6] in ("ok    ", "warn  ", "fail  ") and len(line) > 20 for line in lines), lines)
    objects = json.loads(call(folder, "--json").stdout)["findings"]
    expect([(f["name"], f["state"]) for f in objects] == [(n, line[:5].strip()) for n, line in zip(names, lines)], objects)
    quiet = call(folder, "--quiet").stdout.splitlines()
    expect(quiet == [line for line in lines if not line.startswith("ok ")], quiet)
    expect(os.listdir(folder) == [], "something was made:", os.listdir(folder))


@test
def refuses_what_it_does_not_take(folder):
    expect_failure(call(folder, "--no-such"), 2, "E-ENV-002")
    expect_failure(call(folder, "more"), 2, "E-ENV-004")
    with open("/dev/full", "w") as full:
        for arguments in ([], ["--json"]):
            result = subprocess.run([DOCTOR, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, env=clean(folder))
            expect_failure(result, 4, "E-ENV-012")


# ---- the machine ----

@test
def tests_the_numerics_of_every_level(folder):
    cpu = look(folder)["cpu"]["facts"]
    expect(cpu["threads"] == len(os.sched_getaffinity(0)) and cpu["levels"][:2] == ["reference", "scalar"], cpu)
    expect(cpu["self_test_equal"] == cpu["self_test_digests"] > 300, cpu)
    for level in cpu["levels"]:
        at_level = look(folder, env={"SEXPGPU_SIMD": level})
        expect_finding(at_level, "cpu", "ok", level, "SEXPGPU_SIMD")
        expect({**at_level["cpu"]["facts"], "simd": cpu["simd"]} == cpu, at_level)
    one = subprocess.run(["taskset", "-c", str(min(os.sched_getaffinity(0))), DOCTOR], capture_output=True, text=True,
                         env=clean(folder))
    expect(one.stdout.startswith("ok    cpu           1 thread, "), one.stdout[:200])
    expect_finding(look(folder, env={"SEXPGPU_SIMD": "sse"}, status=1), "cpu", "fail", 'SEXPGPU_SIMD is "sse"', "scalar")


@test
def tells_the_memory(folder):
    with open("/proc/meminfo") as f:
        total = int(f.readline().split()[1]) * 1024
    facts = look(folder)["memory"]["facts"]
    expect(facts["total_bytes"] == total and 0 < facts["available_bytes"] <= total, facts, total)


@test
def looks_at_the_scratch_directory(folder):
    expect_finding(look(folder, env={"TMPDIR": f"{folder}/none"}, status=1), "scratch", "fail", f"{folder}/none (TMPDIR)", "No such")
    open(f"{folder}/file", "w").close()
    expect_finding(look(folder, env={"TMPDIR": f"{folder}/file"}, status=1), "scratch", "fail", "Not a directory")
    expect(look(folder, drop=("TMPDIR",))["scratch"]["facts"]["path"] == "/tmp")
    expect(os.listdir(folder) == ["file"], os.listdir(folder))
    if subprocess.run(["stat", "-f", "-c", "%T", "/dev/shm"], capture_output=True, text=True).stdout == "tmpfs\n":
        expect_finding(look(folder, env={"TMPDIR": "/dev/shm"}), "scratch", "warn", "tmpfs")


# ---- the store ----

class Options(ctypes.Structure):
    _fields_ = [("path", ctypes.c_char_p), ("system_path", ctypes.c_char_p), ("access", ctypes.c_int),
                ("journal", ctypes.c_int), ("busy_ms", ctypes.c_int)]


def make_store(path):
    library = ctypes.CDLL(os.path.join(BUILD, "lib", "libchoices.so"))
    store, options = ctypes.c_void_p(), Options(path.encode(), None, 0, 0, 0)
    expect(library.choices_store_open(ctypes.byref(store), ctypes.byref(options), None) == 0, "the store is not made")
    library.choices_store_close(store)


@test
def looks_at_the_store(folder):
    path = f"{folder}/cache/sexpgpu/choices.db"
    env = {"XDG_CACHE_HOME": f"{folder}/cache"}
    found = look(folder, env=env, status=0)
    expect_finding(found, "store", "ok", f"{path} is not made yet")
    expect_finding(found, "cache", "ok", f"{folder}/cache/sexpgpu, not made yet")
    expect(not os.path.exists(f"{folder}/cache"), "it was made")
    if not is_sanitized():
        make_store(path)
        found = look(folder, env=env, status=0)
        expect_finding(found, "store", "ok", f"{path}, 0 choices of 0 devices, WAL")
        facts = found["store"]["facts"]
        expect(facts["exists"] and facts["writable"] and facts["journal"] == "wal", facts)
        expect_finding(found, "cache", "ok", "sexpgpu, writable")
        above = {**env, "XDG_CACHE_HOME": f"{folder}/other", "SEXPGPU_CHOICES_SYSTEM": path}
        expect_finding(look(folder, env=above, status=0), "store", "ok", f"is not made yet, above {path}")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(b"no store at all" * 100)
    expect_finding(look(folder, env=env, status=1), "store", "fail", "E-CHOICE-", path)
    expect_finding(look(folder, env={"SEXPGPU_CHOICES_SYSTEM": path}, status=0), "store", "warn", "E-CHOICE-", path)


@test
def says_when_there_is_no_place_for_a_store(folder):
    found = look(folder, drop=("HOME",), status=0)
    expect_finding(found, "cache", "warn", "no cache directory", "set HOME or XDG_CACHE_HOME")
    expect("store" not in found, found)
    open(f"{folder}/file", "w").close()
    expect_finding(look(folder, env={"XDG_CACHE_HOME": f"{folder}/file"}), "cache", "warn", f"{folder}/file", "no directory")
    expect_finding(look(folder, env={"XDG_CACHE_HOME": "relative"}), "cache", "ok", f"{folder}/.cache/sexpgpu")


# ---- libraries ----

@test
def names_each_library_of_cuda(folder):
    lines = [line for line in call(folder).stdout.splitlines() if line[6:10] == "cuda"]
    if any("this build" in line for line in lines):
        expect(len(lines) == 1 and lines[0].startswith("warn"), lines)
        return
    libraries = ["CUDA driver", "NVRTC", "cuBLAS", "cuBLASLt", "cuDNN"]
    expect(len(lines) == len(libraries), lines)
    for library, line in zip(libraries, lines):
        expect(line[20:].startswith(library + " "), library, line)
        expect(("so." in line) if line.startswith("warn") else os.path.exists(line.rsplit(", ", 1)[1]), line)
    old = os.path.join(BUILD, "test", "doubles", "cudnn_old.so")
    if os.path.exists(old):
        shutil.copy(old, f"{folder}/libcudnn.so.9")
        found = look(folder, env={"LD_LIBRARY_PATH": folder})
        expect_finding(found, "cuda", "warn", f"{folder}/libcudnn.so.9", "reports version")


# ---- object storage ----

@test
def names_what_a_role_lacks(folder):
    found = look(folder, env={"SEXPGPU_DATA_AWS_ACCESS_KEY_ID": "KEY", "AWS_SECRET_ACCESS_KEY": SECRET,
                              "SEXPGPU_AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, status=1)
    expect_finding(found, "s3 data", "fail", "REGION is set nowhere: SEXPGPU_DATA_AWS_REGION, SEXPGPU_AWS_REGION or AWS_REGION")
    expect("ACCESS" not in found["s3 data"]["found"], found["s3 data"])
    expect_finding(found, "s3 checkpoint", "fail", "ACCESS_KEY_ID is set nowhere: SEXPGPU_CHECKPOINT_AWS_", "REGION is set nowhere")
    expect(found["s3 data"]["facts"]["variables"]["access_key_id"] == "SEXPGPU_DATA_AWS_ACCESS_KEY_ID", found)
    expect(found["s3 data"]["facts"]["variables"]["region"] is None, found)
    for env in ({}, {"AWS_CA_BUNDLE": "/etc/ssl/cert.pem"}):
        for role in ("data", "checkpoint"):
            expect_finding(look(folder, env=env, status=0), f"s3 {role}", "ok", "not set")
    expect_finding(look(folder, env={**S3, "AWS_ENDPOINT_URL": "ftp://host"}, status=1), "s3 data", "fail", "E-ENV-001", "AWS_ENDPOINT_URL")


@test
def proves_a_signature(folder):
    server = Server()
    found = look(folder, env={**S3, "AWS_ENDPOINT_URL": server.url}, status=0)
    for role in ("data", "checkpoint"):
        expect_finding(found, f"s3 {role}", "ok", "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, AWS_REGION; signed request answered in ")
        expect(found[f"s3 {role}"]["facts"]["proved"] and found[f"s3 {role}"]["facts"]["answered_ms"] < 60000, found)
    expect(len(server.requests) == 2 and all(p == "/" and a.startswith("AWS4-HMAC-SHA256 Credential=KEY/") for p, a in server.requests))
    denied = Server(403, b"<Error><Code>AccessDenied</Code></Error>")
    expect_finding(look(folder, env={**S3, "AWS_ENDPOINT_URL": denied.url}, status=0), "s3 data", "ok", "answered", "may not list buckets")


@test
def tells_how_a_signature_is_refused(folder):
    for status, code, expected in ((403, "SignatureDoesNotMatch", "E-S3-007"), (403, "InvalidAccessKeyId", "E-S3-007"),
                                   (403, "RequestTimeTooSkewed", "E-S3-008"), (400, "AuthorizationHeaderMalformed", "E-S3-018")):
        server = Server(status, f"<Error><Code>{code}</Code><Message>{SECRET}</Message></Error>".encode())
        found = look(folder, env={**S3, "AWS_ENDPOINT_URL": server.url}, status=1)
        expect_finding(found, "s3 checkpoint", "fail", expected, code)
        expect(found["s3 data"]["facts"]["error"] == expected and not found["s3 data"]["facts"]["proved"], found)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}"
        found = look(folder, env={**S3, "AWS_ENDPOINT_URL": nobody}, status=1)
    expect_finding(found, "s3 data", "fail", "E-S3-005", "2 attempts")
    expect_finding(found, "clock", "ok", "compared with no server")


@test
def compares_clocks(folder):
    for ahead, state in ((0, "ok"), (200, "ok"), (-200, "ok"), (400, "fail"), (-400, "fail")):
        found = look(folder, env={**S3, "AWS_ENDPOINT_URL": Server(ahead=ahead).url})
        expect_finding(found, "clock", state, *([] if state == "ok" else ["behind" if ahead > 0 else "ahead of"]))
        expect(abs(found["clock"]["facts"]["skew_s"] + ahead) <= 3, ahead, found["clock"])
    skewed = Server(403, b"<Error><Code>RequestTimeTooSkewed</Code></Error>", ahead=4000)
    expect_finding(look(folder, env={**S3, "AWS_ENDPOINT_URL": skewed.url}), "clock", "fail", "behind")
    undated = look(folder, env={**S3, "AWS_ENDPOINT_URL": Server(ahead=None).url}, status=0)
    expect(undated["clock"]["facts"]["skew_s"] is None, undated["clock"])
    own = f"{folder}/sexpgpu-doctor"
    shutil.copy(DOCTOR, own)
    os.utime(own, (time.time() + 86400,) * 2)
    expect_finding(look(folder, program=own, status=1), "clock", "fail", "before this program was built")


# ---- variables ----

@test
def checks_every_variable(folder):
    good = {"SEXPGPU_DEVICE": "cpu", "SEXPGPU_METRICS": "jsonl:a", "SEXPGPU_MEMORY": "7.5", "SEXPGPU_EVAL_LIMIT": "10",
            "SEXPGPU_EXPLAIN": "kernels", "SEXPGPU_OPTIMIZE": "0", "SEXPGPU_DIAGNOSTICS": "a/*,b", "SEXPGPU_STATUS": "s"}
    found = look(folder, env=good, status=0)
    expect_finding(found, "environment", "ok", ", ".join(sorted(good)))
    expect(found["environment"]["facts"]["set"] == sorted(good), found["environment"])
    for name, value in (("SEXPGPU_DEVICE", "tpu"), ("SEXPGPU_METRICS", "jsonl:"), ("SEXPGPU_METRICS", "csv:a"), ("SEXPGPU_MEMORY", "-1"),
                        ("SEXPGPU_EVAL_LIMIT", "0"), ("SEXPGPU_EXPLAIN", "all"), ("SEXPGPU_OPTIMIZE", "yes"), ("SEXPGPU_STATUS", "")):
        expect_finding(look(folder, env={**good, name: value}, status=1), "environment", "fail", f'E-ENV-001: {name}: found "{value}"')
        run = tool(os.path.join(EXAMPLES, "linear", "linear.sexp"), "--steps", "1", env={name: value})
        expect(run.returncode in (2, 5) and any(c in run.stderr for c in ("E-ENV-001: " + name, "E-DEVICE-001", "E-METRIC-001")), "a run takes it:", name, value, run.stderr)
    for value, code in (("x", "E-ENV-001"), ("0,1", "E-DEVICE-060")):
        expect_finding(look(folder, env={"SEXPGPU_DEVICES": value}, status=1), "environment", "fail", f'{code}: SEXPGPU_DEVICES: found "{value}"')
    syvain = {"SEXPGPU_METRICS": "syvain:f", "SYVAIN_METRICS_URL": "https://metrics.example/", "SYVAIN_METRICS_API_KEY": SECRET}
    look(folder, env=syvain, status=0)
    expect_finding(look(folder, env={**syvain, "SEXPGPU_METRICS": "syvain"}, status=1), "environment", "fail", "E-METRIC-005", "SYVAIN_METRICS_FOLDER_ID")
    expect_finding(look(folder, env={**syvain, "SYVAIN_METRICS_URL": "http://metrics.example/"}, status=1), "environment", "fail",
                   "E-ENV-001: SYVAIN_METRICS_URL")
    for choices in ("fresh", "fresh:stacking", "some/record.json", "-"):
        look(folder, env={"SEXPGPU_CHOICES": choices, "SEXPGPU_NODE_GRADIENTS": "bf16"}, status=0)
    expect_finding(look(folder, env={"SEXPGPU_CHOICES": "fresh:nothing"}, status=1), "environment", "fail", "E-CHOICE-022: SEXPGPU_CHOICES")
    expect_finding(look(folder, env={"SEXPGPU_NODES": "2"}, status=1), "environment", "fail", "E-ENV-003: SEXPGPU_NODES")
    found = look(folder, env={"SEXPGPU_METRIC": SECRET, "SEXPGPU_AWS_REGION": "r", "SEXPGPU_OPTIMIZE": "x"}, status=1)
    expect_finding(found, "environment", "fail", "SEXPGPU_METRIC is read by nothing; E-ENV-001: SEXPGPU_OPTIMIZE")
    expect("SEXPGPU_AWS_REGION" not in found["environment"]["found"], found)
    expect_finding(look(folder, env={"SEXPGPU_METRIC": SECRET}, status=0), "environment", "warn", "SEXPGPU_METRIC is read by nothing")


@test
def names_what_can_move_bits(folder):
    found = look(folder, env={"NVIDIA_TF32_OVERRIDE": "0", "NCCL_ALGO": "Ring", "OMP_NUM_THREADS": "2", "NCC": "1",
                              "CUBLASLT_WORKSPACE_SIZE": "64"}, status=0)
    expect_finding(found, "bits", "warn", "CUBLASLT_WORKSPACE_SIZE, NCCL_ALGO, NVIDIA_TF32_OVERRIDE, OMP_NUM_THREADS")
    names = ["CUBLASLT_WORKSPACE_SIZE", "NCCL_ALGO", "NVIDIA_TF32_OVERRIDE", "OMP_NUM_THREADS"]
    expect(found["bits"]["facts"]["set"] == names, found["bits"])


def opens_the_device_where_there_is_a_driver(folder):
    program = os.path.join(folder, "simulated-doctor")
    with open(program, "w", encoding="utf-8") as f:
        f.write(f"#!/bin/sh\nexec {shlex.join([*SIMULATOR, DOCTOR])} \"$@\"\n")
    os.chmod(program, 0o755)
    found = look(folder, program=program, status=0)
    expect_finding(found, "device", "ok", "0 of 1: NVIDIA A100", "compute_80 with 108 multiprocessors")
    expect(found["device"]["facts"]["devices"] == 1, found["device"])
    found = look(folder, env={"SEXPGPU_PATTERNS": "0"}, program=program, status=0)
    expect_finding(found, "device", "ok", "NVRTC 13.0, patterns off")
    expect_finding(look(folder, env={"SEXPGPU_DEVICES": "1"}, program=program, status=1), "device", "fail", "E-DEVICE-022: there is no device 1")


SIMULATOR = simulator()
if SIMULATOR:
    test(opens_the_device_where_there_is_a_driver)
main()
