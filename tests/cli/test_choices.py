#!/usr/bin/env python3
"""sexpgpu-choices as a user meets it: the store, its exports, differences, and what goes wrong."""
import hashlib, json, os, pty, re, resource, signal, sqlite3, subprocess, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *
from checkpoints import *

TOOL = os.path.join(BUILD, "bin", "sexpgpu-choices")
CHECKPOINT = os.path.join(BUILD, "bin", "sexpgpu-checkpoint")
LINEAR = os.path.join(EXAMPLES, "linear", "linear.sexp")
COMMANDS = ["list", "show", "why", "export", "import", "merge", "diff", "rm", "prune", "check", "verify", "path"]
NOBODY = 65534
A = "compute_80 with 108 multiprocessors, cuBLAS 130101, cuDNN 91300, NVRTC 13.0, patterns on"
B = A.replace("91300", "91900")
WEIGHT = ("Weight Spec { batch: 512, height: 8, width: 8, channels: 256, kh: 3, kw: 3, out: 512, stride: 1, padding: 1 } "
          "bf16")
PRODUCT = "Product { batch: 1, m: 768, n: 3072, k: 65536, a: n, b: t } f32"
GRAPH = "graph sha256:9c41e2aabb candidates 1 2 4"


def header(device=A, **more):
    return {"record": "choices", "version": 1, "device": device, **more}


def choice(kind, key, value, **more):
    return {"record": "choice", "kind": kind, "key": key, "value": value, **more}


def stream(*records):
    return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records)


def exported(*records):
    """As export prints them: executable before value."""
    out = []
    for r in records:
        if r["record"] == "choice":
            order = ["record", "kind", "key", "executable", "mode", "value"]
            r = {k: r[k] for k in order if k in r}
        out.append(r)
    return stream(*out)


MINE = [header(gpu="A100", driver=13000, libraries={"cublas": 130101}),
        choice("convolution", WEIGHT, "engine 47 knobs 0=3 2=3 5=3 14=2", ahead=0.072, bits="moves", reason="ahead",
               measured="2026-11-29T12:00:00Z", tool="sexpgpu-run 0.1.0", candidates=[
                   {"value": "engine 52 knobs 2=1", "state": "measured", "probe": "00000000000000ff",
                    "samples_ns": [1072000, 1073000, 1071000]},
                   {"value": "engine 47 knobs 0=3 2=3 5=3 14=2", "state": "measured", "probe": "00000000000000fe",
                    "samples_ns": [1000000, 1001000, 999000]},
                   {"value": "engine 20", "state": "rejected", "samples_ns": []}]),
        choice("product", PRODUCT, "split 8", executable="build-id abcd", measured="2026-11-29T12:00:00Z", ahead=0.11),
        choice("recompute", "device", 10.99, measured="2026-11-28T12:00:00Z", bits="neutral"),
        choice("stacking", GRAPH, 4, executable="build-id abcd", ahead=0.234, bits="moves")]
THEIRS = [header(B, driver=13000), choice("convolution", WEIGHT, "engine 52 knobs 2=1"),
          choice("recompute", "device", 10.99), choice("stacking", GRAPH, 4, executable="build-id abcd")]
OBJECT = {"convolutions": {WEIGHT: "engine 47 knobs 0=3 2=3 5=3 14=2"}, "device": A, "graph": "sha256:9c41e2aabb",
          "node_gradients": None, "numerics": 1, "products": {PRODUCT: "split 8"}, "recompute": 10.99, "stacking": 4,
          "strict": False}


def home(folder, **more):
    return {"HOME": folder, "XDG_CACHE_HOME": os.path.join(folder, "cache"), **more}


def choices(folder, *arguments, env=None, **options):
    clean = environment(env if env is not None else home(folder))
    if env is not None and "HOME" not in env:
        clean.pop("HOME", None), clean.pop("XDG_CACHE_HOME", None)
    return subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, timeout=300, env=clean, **options)


def good(folder, *arguments, **options):
    result = choices(folder, *arguments, **options)
    expect(result.returncode == 0, arguments, result.returncode, result.stderr, result.stdout[:300])
    return result.stdout


def stored(folder, records=MINE):
    good(folder, "import", "-q", input=stream(*records))


def file(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def database(folder):
    return os.path.join(folder, "cache", "sexpgpu", "choices.db")


# ---- usage ------------------------------------------------------------------------------------------------

@test
def help_fits_a_screen_and_names_every_command(folder):
    text = good(folder, "--help")
    expect(len(text.splitlines()) <= 24 and all(len(line) <= 120 for line in text.splitlines()), text)
    page = open(os.path.join(ROOT, "tools", "sexpgpu-choices", "sexpgpu-choices.1")).read().replace("\\-", "-")
    for command in COMMANDS:
        expect(re.search(rf"^  {command} ", text, re.M), command)
        own = good(folder, command, "--help")
        expect(own.startswith(f"usage: sexpgpu-choices {command} [OPTION]...") and len(own.splitlines()) <= 24, own)
        expect(f".BI {command} " in page or f'.BI "{command} ' in page, command)
        for option in re.findall(r"--[a-z-]+", own):
            expect(option in page, command, option)
    expect(re.fullmatch(r"sexpgpu-choices \d+\.\d+\.\d+\n", good(folder, "--version")))


@test
def man_page_formats(_):
    page = subprocess.run(["man", "--warnings", "-l", os.path.join(ROOT, "tools/sexpgpu-choices/sexpgpu-choices.1")],
                          capture_output=True, text=True, env={**os.environ, "MANWIDTH": "100"})
    expect(page.returncode == 0 and not page.stderr and "--miss" in page.stdout, page.stderr)


@test
def usage_errors(folder):
    for arguments, code in ((["nothing"], "E-ENV-011"), ([], "E-ENV-011"), (["diff", "a"], "E-ENV-004"),
                            (["diff", "-", "-"], "E-ENV-004"), (["list", "x"], "E-ENV-004"), (["rm"], "E-ENV-004"),
                            (["rm", "--all", "k"], "E-ENV-002"), (["prune"], "E-ENV-004"), (["why"], "E-ENV-004"),
                            (["why", "k", "--miss", "r"], "E-ENV-004"), (["import", "--keep", "--replace"], "E-ENV-002"),
                            (["prune", "--older-than", "soon"], "E-ENV-002"), (["export", "--what"], "E-ENV-002"),
                            (["check", "--file", "f"], "E-ENV-004"), (["check", "r", "--run", "a"], "E-ENV-002"), (["list", "--kind", "foo"], "E-CHOICE-022"),
                            (["show", "none"], "E-CHOICE-020"), (["why", "none"], "E-CHOICE-020")):
        expect_failure(choices(folder, *arguments, input=""), 2, code)
    stored(folder)
    expect_failure(choices(folder, "rm", "none"), 2, "E-CHOICE-020", "nothing was removed")
    expect_failure(choices(folder, "export", "--device", "none"), 2, "E-CHOICE-007", '"none"')


# ---- export, import, merge ----------------------------------------------------------------------------------

@test
def an_empty_store_exports_a_header(folder):
    expect(good(folder, "export") == '{"record": "choices", "version": 1}\n')
    bare = file(folder, "bare", good(folder, "export"))
    expect(good(folder, "diff", bare, bare) == "")
    expect(good(folder, "list") == "" and not os.path.exists(database(folder)))
    good(folder, "import", input='{"record": "choices", "version": 1}\n')
    expect(good(folder, "export") == '{"record": "choices", "version": 1}\n')


@test
def exports_are_byte_stable_and_sorted(folder):
    stored(folder, MINE[:1] + list(reversed(MINE[1:])))
    expect(good(folder, "export") == exported(*MINE), good(folder, "export"))
    other = os.path.join(folder, "other")
    good(other, "import", input=good(folder, "export", "--measurements"))
    expect(good(other, "export", "-m") == good(folder, "export", "-m"))
    expect([r["samples_ns"] for r in json.loads(good(folder, "export", "-m").splitlines()[1])["candidates"]] ==
           [c["samples_ns"] for c in MINE[1]["candidates"]])
    expect(schema_errors("choices-stream.json", map(json.loads, good(folder, "export", "-m").splitlines())) == [])
    expect(schema_errors("choices-stream.json", [json.loads('{"record": "choices", "version": 1}')]) == [])


@test
def two_machines_compare_with_diff(folder):
    a, b = os.path.join(folder, "a"), os.path.join(folder, "b")
    stored(a)
    stored(b, MINE[:3] + [{**MINE[4], "value": 2}] + MINE[3:4])
    script = f"diff <(HOME={a} XDG_CACHE_HOME={a}/cache {TOOL} export) <(HOME={b} XDG_CACHE_HOME={b}/cache {TOOL} export)"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment())
    expect(result.returncode == 1 and result.stdout ==
           "5c5\n< " + exported(MINE[4]) + "---\n> " + exported({**MINE[4], "value": 2}), result.stdout)


@test
def time_goes_with_the_number_of_rows(folder):
    text = exported(MINE[0], *(choice("product", f"k{i:06}" + "x" * 200, "v") for i in range(60000)))
    begin = time.monotonic()
    good(folder, "import", "-q", input=text)
    expect(good(folder, "export") == text)
    expect(time.monotonic() - begin < 30, time.monotonic() - begin)


@test
def parts_are_exported(folder):
    stored(folder)
    stored(folder, THEIRS)
    expect(good(folder, "export", "--device", B) == exported(*THEIRS))
    expect(good(folder, "export", "--device", "#2") == exported(*THEIRS))
    expect(good(folder, "export", "-k", "convolutions") == exported(MINE[0], MINE[1], THEIRS[0], THEIRS[1]))
    expect(good(folder, "export", "-k", "product", "-d", "#1") == exported(MINE[0], MINE[2]))


@test
def conflicts_are_refused(folder):
    stored(folder)
    changed = stream(MINE[0], choice("attention", "new", "x"), {**MINE[4], "value": 2})
    expect_failure(choices(folder, "import", input=changed), 3, "E-CHOICE-017", "4 in the store and 2 in the record", "--keep")
    expect(good(folder, "export") == exported(*MINE))
    result = choices(folder, "import", "--keep", "-", input=changed)
    expect(result.returncode == 0 and result.stderr == "1 added, 0 the same, 1 kept, 0 replaced\n", result.stderr)
    result = choices(folder, "import", "--replace", file(folder, "r", changed))
    expect(result.returncode == 0 and result.stderr == "0 added, 1 the same, 0 kept, 1 replaced\n", result.stderr)
    expect('"value": 2' in good(folder, "export", "-k", "stacking"))
    expect_failure(choices(folder, "import", input=json.dumps(OBJECT)), 2, "E-CHOICE-007", "--choices")
    expect_failure(choices(folder, "import", input=""), 2, "E-CHOICE-007", "standard input")


@test
def records_merge(folder):
    a, b = file(folder, "a", stream(*MINE)), file(folder, "b", stream(*THEIRS))
    expect(good(folder, "merge", a, b) == exported(*MINE, *THEIRS))
    expect(good(folder, "merge", b, a, a) == exported(*MINE, *THEIRS))
    changed = file(folder, "c", stream(MINE[0], {**MINE[4], "value": 2}))
    expect_failure(choices(folder, "merge", a, changed), 3, "E-CHOICE-017", "is 4 and 2")
    expect(good(folder, "merge", "--keep", a, changed) == exported(*MINE))
    expect(good(folder, "merge", "--replace", a, changed) == exported(*MINE[:4], {**MINE[4], "value": 2}))
    expect(json.loads(good(folder, "merge", "-m", a, b).splitlines()[1])["candidates"] == MINE[1]["candidates"])
    stored(folder)
    expect(good(folder, "merge", database(folder), b) == exported(*MINE, *THEIRS))
    expect_failure(choices(folder, "merge", a, file(folder, "o", json.dumps(OBJECT))), 2, "E-CHOICE-007")


# ---- for people ----------------------------------------------------------------------------------------------

TABLE = f"""device       {A}
kind         key                                       value                              ahead  bits     measured
convolution  Weight 512x8x8x256 3x3 -> 512 /1 +1 bf16  engine 47 knobs 0=3 2=3 5=3 14=2   7.2 %  moves    2026-11-29
product      768 x 3072 x 65536 n t f32                split 8                           11.0 %  -        2026-11-29
recompute    device                                    10.99 flops a byte                     -  neutral  2026-11-28
stacking     graph 9c41e2…  of 1 2 4                   4                                 23.4 %  moves    -
"""


@test
def list_is_a_table_on_a_terminal_and_json_in_a_pipe(folder):
    stored(folder)
    expect(good(folder, "list", "--table") == TABLE, good(folder, "list", "--table"))
    here, there = pty.openpty()
    subprocess.run([TOOL, "list"], stdout=there, env=environment(home(folder)), check=True)
    os.close(there)
    seen = b""
    while chunk := read_or_end(here):
        seen += chunk
    os.close(here)
    expect(seen.decode().replace("\r\n", "\n") == TABLE, seen)
    lines = [json.loads(line) for line in good(folder, "list").splitlines()]
    expect([line["value"] for line in lines] == [r["value"] for r in MINE[1:]] and lines[0]["from"] == "user", lines)
    expect(schema_errors("choices-list.json", lines) == [])
    expect(len(good(folder, "list", "-k", "product").splitlines()) == 1)


def read_or_end(descriptor):
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""


@test
def why_shows_the_candidates(folder):
    stored(folder)
    expect(good(folder, "why", "Weight") == f"""convolution  {WEIGHT}
value        engine 47 knobs 0=3 2=3 5=3 14=2
why          ahead, by 7.2 % of the first candidate
device       {A}
  candidate                             median   spread  probe             state
    engine 52 knobs 2=1               1.072 ms  +-0.001  00000000000000ff  measured
  * engine 47 knobs 0=3 2=3 5=3 14=2  1.000 ms  +-0.001  00000000000000fe  measured
    engine 20                                -        -  -                 rejected: two outputs of one input differ
""", good(folder, "why", "Weight"))
    text = good(folder, "show", PRODUCT)
    expect("executable   build-id abcd\n" in text and "value        split 8\n" in text, text)
    expect(json.loads(good(folder, "show", "--json", "9c41e2"))["value"] == 4)


@test
def why_names_the_fields_of_a_miss(folder):
    stored(folder)
    result = choices(folder, "why", "--miss", file(folder, "b", stream(
        *THEIRS, choice("product", PRODUCT.replace("768", "769"), "split 8", executable="build-id dcba"))))
    expect(result.returncode == 1 and "  cuDNN      cuDNN 91900 in the record, cuDNN 91300 in the store\n" in result.stdout)
    expect("  m          769 in the record, 768 in the store\n"
           "  executable build-id dcba in the record, build-id abcd in the store\n" in result.stdout, result.stdout)
    expect(result.stdout.endswith("0 of 4 choices of the record are keys of the store\n"), result.stdout)
    expect(good(folder, "why", "--miss", file(folder, "a", stream(*MINE))) ==
           "4 of 4 choices of the record are keys of the store\n")


# ---- differences -------------------------------------------------------------------------------------------------

@test
def differences_are_lines(folder):
    a, b = file(folder, "a", stream(*MINE)), file(folder, "b", stream(*THEIRS))
    digest = [hashlib.sha256(exported(*r).encode()).hexdigest()[:6] for r in (MINE, THEIRS)]
    result = choices(folder, "diff", a, b)
    expect(result.returncode == 1 and result.stdout ==
           "device       differs  cuDNN 91300 | cuDNN 91900\n"
           "convolution  Weight 512x8x8x256 3x3 -> 512 /1 +1 bf16  engine 47 knobs 0=3 2=3 5=3 14=2 | engine 52 knobs 2=1\n"
           "product      only in a: 768 x 3072 x 65536 n t f32 = split 8\n"
           f"1 of 4 choices differ, 1 only in a, 0 only in b; digests {digest[0]}… {digest[1]}…\n", result.stdout)
    expect(good(folder, "diff", a, a) == "")
    result = choices(folder, "diff", "--json", a, b)
    expect(schema_errors("choices-diff.json", map(json.loads, result.stdout.splitlines())) == [] and result.returncode == 1)


@test
def every_form_of_a_record_is_compared(folder):
    stored(folder)
    text = json.dumps(OBJECT)
    checkpoint = write_checkpoint(os.path.join(folder, "step-3"), {"w": f32(1.0)}, choices=OBJECT)
    names = [file(folder, "object", text), checkpoint, os.path.join(checkpoint, "experiment.json"),
             file(folder, "annotation", json.dumps({"record": "annotation", "name": "lowering",
                                                    "metadata": {"device": A, "choices": OBJECT}})),
             file(folder, "metadata", json.dumps({"device": A, "choices": OBJECT}))]
    for name in names:
        expect(good(folder, "diff", names[0], name) == "", name)
        result = choices(folder, "diff", name, database(folder))
        expect(result.returncode == 1 and result.stdout.splitlines()[0] == "node_gradients only in a: null" and
               result.stdout.splitlines()[1].startswith("0 of 5 choices differ, 1 only in a,"),
               result.stdout)
    expect(good(folder, "diff", database(folder), file(folder, "a", stream(*MINE))) == "")
    result = choices(folder, "diff", "s3://bucket/run/step-3", names[0])
    expect_failure(result, 2, "E-CHOICE-009", "sexpgpu-checkpoint choices s3://")
    expect_failure(choices(folder, "diff", names[0], os.path.join(folder, "none")), 4, "E-CHOICE-008", "No such file")
    none = write_checkpoint(os.path.join(folder, "step-4"), {"w": f32(1.0)}, choices=None)
    expect_failure(choices(folder, "diff", names[0], none), 2, "E-CHOICE-007", "recorded none")


@test
def pipelines(folder):
    for name, arguments in (("a", []), ("b", ["--portable"])):
        run = tool(LINEAR, "--quiet", "--checkpoint-dir", os.path.join(folder, name), *arguments)
        expect(run.returncode == 0, run.stderr)

    def pipe(left, right):
        script = f"'{CHECKPOINT}' choices {left} | '{TOOL}' diff - {right}"
        return subprocess.run(["bash", "-c", "set -o pipefail; " + script], capture_output=True, text=True, cwd=folder,
                              env=environment(home(folder)))

    same = pipe("a/step-300", "a/step-300")
    expect(same.returncode == 0 and same.stdout == "" and same.stderr == "", same)
    other = pipe("a/step-300", "b/step-300")
    text = [subprocess.run([CHECKPOINT, "choices", f"{folder}/{n}/step-300"], capture_output=True, text=True).stdout
            for n in "ab"]
    digest = [hashlib.sha256(t.rstrip("\n").encode()).hexdigest()[:6] for t in text]
    expect(other.returncode == 1 and other.stdout ==
           "portable     differs  none | true\n"
           f"0 of 0 choices differ, 0 only in a, 0 only in b; digests {digest[0]}… {digest[1]}…\n", other)
    shown = subprocess.run([CHECKPOINT, "ls", "a"], capture_output=True, text=True, cwd=folder).stdout
    expect(digest[0] + "…" in shown, shown, digest)


# ---- removing, checking --------------------------------------------------------------------------------------------

@test
def choices_are_removed(folder):
    stored(folder)
    stored(folder, THEIRS)
    for arguments, left in ((["rm", WEIGHT, "-d", A], 6), (["rm", "-k", "recompute"], 4), (["rm", "-d", B], 2)):
        good(folder, *arguments)
        expect(len(good(folder, "list").splitlines()) == left, arguments, good(folder, "list"))
    expect(choices(folder, "rm", "--all").stderr == "2 removed\n")
    expect(good(folder, "export") == '{"record": "choices", "version": 1}\n')


@test
def choices_are_pruned(folder):
    stored(folder)
    expect(choices(folder, "prune", "--older-than", "2026-11-29").stderr == "1 removed\n")
    expect(choices(folder, "prune", "--older-than", "1000000d").stderr == "0 removed\n")
    notes = subprocess.run(["readelf", "-n", RUN], capture_output=True, text=True).stdout
    build = re.search(r"Build ID: (\w+)", notes)
    if build:
        stored(folder, [MINE[0], choice("product", "own", "split 2", executable="build-id " + build.group(1))])
    expect(choices(folder, "prune", "--other-executables").stderr == "2 removed\n")
    expect([json.loads(l)["key"] for l in good(folder, "list", "-k", "product").splitlines()] == ["own"] * bool(build))


@test
def check_tells_of_damage(folder):
    expect(good(folder, "check") == f"ok  {database(folder)}, 0 choices of 0 devices (not made yet)\n")
    stored(folder)
    expect(good(folder, "check") == f"ok  {database(folder)}, 4 choices of 1 device\n")
    digest = hashlib.sha256(exported(*MINE).encode()).hexdigest()
    expect(good(folder, "check", "-", input=stream(*MINE)) ==
           f"ok  4 choices of 1 device, digest sha256:{digest}\n    of {A}\n    a CPU run needs none of them\n")
    connection = sqlite3.connect(database(folder))
    connection.execute("UPDATE choice SET value = '{' WHERE kind = 'product'")
    connection.commit()
    connection.close()
    result = choices(folder, "check")
    expect(result.returncode == 1 and "malformed value" in result.stdout, result)
    expect_failure(choices(folder, "export"), 4, "E-CHOICE-012")
    with open(database(folder), "r+b") as f:
        f.write(b"damaged")
    expect_failure(choices(folder, "check"), 4, "E-CHOICE-012", "move it away")


@test
def a_record_of_no_device_here_is_not_verified(folder):
    nowhere = {**home(folder), "SEXPGPU_DEVICES": "1023"}
    result = choices(folder, "verify", file(folder, "a", stream(*MINE)), env=nowhere)
    expect_failure(result, 5, "E-CHOICE-021", "compute_80")
    expect("E-DEVICE-0" in result.stderr, result.stderr)
    expect_failure(choices(folder, "verify", os.path.join(folder, "none")), 4, "E-CHOICE-008")


# ---- where the store is ----------------------------------------------------------------------------------------------

@test
def places(folder):
    expect(good(folder, "path") == database(folder) + "\n")
    home_only = {"HOME": folder}
    for env in (home_only, {**home_only, "XDG_CACHE_HOME": "relative"}, {**home_only, "XDG_CACHE_HOME": ""}):
        clean = {k: v for k, v in environment(env).items() if k != "XDG_CACHE_HOME" or "XDG_CACHE_HOME" in env}
        result = subprocess.run([TOOL, "path"], capture_output=True, text=True, env=clean)
        expect(result.stdout == os.path.join(folder, ".cache/sexpgpu/choices.db") + "\n", env, result)
    expect_failure(choices(folder, "path", env={}), 4, "E-CHOICE-016", "HOME")
    expect_failure(choices(folder, "export", env={}), 4, "E-CHOICE-016")
    text = good(folder, "path", "--json", env=home(folder, SEXPGPU_CHOICES_SYSTEM="/etc/xdg/choices.db"))
    expect(json.loads(text) == {"path": database(folder), "system": "/etc/xdg/choices.db"}, text)


@test
def layers(folder):
    system = os.path.join(folder, "system")
    stored(system)
    stored(folder, [MINE[0], {**MINE[4], "value": 2}])
    env = home(folder, SEXPGPU_CHOICES_SYSTEM=database(system))
    lines = [json.loads(line) for line in good(folder, "list", env=env).splitlines()]
    expect([(line["kind"], line["from"]) for line in lines] ==
           [("convolution", "system"), ("product", "system"), ("recompute", "system"), ("stacking", "user")], lines)
    expect(lines[3]["value"] == 2)
    expect("from" in good(folder, "list", "--table", env=env).splitlines()[1])
    result = choices(folder, "list", env=home(folder, SEXPGPU_CHOICES_SYSTEM="/nonexistent"))
    expect(result.returncode == 0 and result.stderr.startswith("E-CHOICE-010: /nonexistent"), result)


@test
def what_cannot_be_written_is_said(folder):
    stored(folder)
    os.chmod(folder, 0o755)
    for path in (os.path.dirname(database(folder)), os.path.dirname(os.path.dirname(database(folder)))):
        os.chmod(path, 0o555)
    os.chmod(database(folder), 0o444)

    def nobody():
        if os.getuid() == 0:
            os.setgid(NOBODY), os.setuid(NOBODY)

    expect_failure(choices(folder, "import", input=stream(*THEIRS), preexec_fn=nobody), 4, "E-CHOICE-013")
    expect(good(folder, "export", preexec_fn=nobody) == exported(*MINE))
    for path in (os.path.dirname(database(folder)), os.path.dirname(os.path.dirname(database(folder)))):
        os.chmod(path, 0o755)
    os.chmod(database(folder), 0o644)

    def small():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))

    many = stream(MINE[0], *(choice("product", f"k{i}", "x" * 200) for i in range(2000)))
    expect_failure(choices(folder, "import", input=many, preexec_fn=small), 4, "E-CHOICE-014")
    expect(good(folder, "export") == exported(*MINE))
    full = subprocess.run([TOOL, "export"], stdout=open("/dev/full", "w"), stderr=subprocess.PIPE, text=True,
                          env=environment(home(folder)))
    expect(full.returncode == 4 and "E-ENV-012" in full.stderr, full)


@test
def a_later_store_is_left_alone(folder):
    stored(folder)
    connection = sqlite3.connect(database(folder))
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = open(database(folder), "rb").read()
    for arguments in (["list"], ["import", "-q", file(folder, "b", stream(*THEIRS))], ["check"]):
        expect_failure(choices(folder, *arguments), 4, "E-CHOICE-011", "found version 99")
    expect(open(database(folder), "rb").read() == before)


@test
def an_earlier_store_is_migrated(folder):
    steps = open(os.path.join(ROOT, "libchoices", "schema.sql"), encoding="utf-8").read().split("-- version ")
    os.makedirs(os.path.dirname(database(folder)))
    connection = sqlite3.connect(database(folder))
    connection.executescript(steps[1][1:])
    connection.executescript(f"PRAGMA application_id = {0x53784368}; PRAGMA user_version = 1;"
                             f"INSERT INTO device VALUES (1, '{A}', NULL, 13000, '', 80, 108, NULL);"
                             "INSERT INTO choice VALUES (1, 1, 'recompute', 'device', '', '', '9', NULL, NULL, NULL, NULL, 0, 0, 0, NULL)")
    connection.close()
    expect(good(folder, "export") == exported(header(driver=13000, compute_capability=80, multiprocessors=108),
                                              choice("recompute", "device", 9)))
    connection = sqlite3.connect(database(folder))
    expect(connection.execute("PRAGMA user_version").fetchone() == (2,))
    connection.close()
    good(folder, "check")


@test
def control_characters_are_not_sent_to_a_terminal(folder):
    stored(folder, [header("d\x1b[2J"), choice("product", "k\x1b[31m", "v\x07")])
    expect("\x1b" not in good(folder, "list", "-t") and "\x07" not in good(folder, "list", "-t"))
    expect("\x1b" not in good(folder, "show", "k") and "\\u001b" in good(folder, "export"))


main()
