#!/usr/bin/env python3
"""sexpgpu-checkpoint as a user meets it, on checkpoints of real runs and on made ones."""
import hashlib, json, os, pty, random, re, resource, shutil, signal, struct, subprocess, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *
from checkpoints import *

TOOL = os.path.join(BUILD, "bin", "sexpgpu-checkpoint")
LINEAR = os.path.join(EXAMPLES, "linear", "linear.sexp")
COMMANDS = ["show", "ls", "verify", "digest", "diff", "choices", "tensors", "get", "cp", "bundle", "prune"]
NOBODY = 65534


def ck(*arguments, text=True, **options):
    return subprocess.run([options.pop("tool", TOOL), *map(str, arguments)], capture_output=True, text=text, timeout=600,
                          env=environment(), **options)


def good(*arguments, **options):
    result = ck(*arguments, **options)
    expect(result.returncode == 0 and not result.stderr, arguments, result.returncode, result.stderr, result.stdout[:300])
    return result.stdout


def lines(*arguments, **options):
    return [json.loads(line) for line in good(*arguments, **options).splitlines()]


def run(folder, name, *arguments):
    out = os.path.join(folder, name)
    result = tool(LINEAR, "--checkpoint-dir", out, "--quiet", *arguments)
    expect(result.returncode == 0, result.stderr)
    return out


def read(path):
    with open(path, "rb") as f:
        return f.read()


def write(path, raw):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(raw if isinstance(raw, bytes) else raw.encode())
    return path


def tree(path):
    return {os.path.relpath(os.path.join(d, f), path): read(os.path.join(d, f)) for d, _, fs in os.walk(path) for f in fs}


def flip(path, offset, bit=0):
    raw = bytearray(read(path))
    raw[offset] ^= 1 << bit
    write(path, bytes(raw))


# ---- usage ------------------------------------------------------------------------------------------------

@test
def help_fits_a_screen_and_names_every_command(_):
    text = good("--help")
    expect(len(text.splitlines()) <= 24, text)
    for command in COMMANDS:
        expect(re.search(rf"^  {command} ", text, re.M), command)
        own = good(command, "--help")
        expect(own.startswith(f"usage: sexpgpu-checkpoint {command} [OPTION]...") and len(own.splitlines()) <= 24, own)
        expect("man sexpgpu-checkpoint says" in own, own)
    expect(re.fullmatch(r"sexpgpu-checkpoint \d+\.\d+\.\d+\n", good("--version")))


@test
def help_and_man_page_name_the_same_options(_):
    page = read(os.path.join(ROOT, "tools", "sexpgpu-checkpoint", "sexpgpu-checkpoint.1")).decode().replace("\\-", "-")
    for command in COMMANDS:
        expect(f".BI {command} " in page, command)
        for option in re.findall(r"--[a-z-]+", good(command, "--help")):
            expect(option in page or option in ("--help", "--version"), command, option)


@test
def wrong_usage_is_refused_by_name(folder):
    c = write_checkpoint(f"{folder}/step-3", {"w": f32(1)})
    for arguments, code, words in [
        ([], "E-ENV-011", "no command"), (["frob"], "E-ENV-011", "frob"), (["show"], "E-ENV-004", "found 0 operands"),
        (["show", c, c], "E-ENV-004", "found 2 operands"), (["diff", c], "E-ENV-004", "expected A B"),
        (["ls", "--nonsense", folder], "E-ENV-002", "--nonsense"), (["prune", folder], "E-ENV-002", "--keep"),
        (["prune", folder, "--keep", "0"], "E-ENV-002", "positive"), (["prune", folder, "--keep"], "E-ENV-002", "needs N"),
        (["get", c, "nothing"], "E-LOAD-101", "nothing"), (["show", "s3://b/step-1"], "E-S3-020", "s3://b"),
        (["ls", "s3://b/x"], "E-S3-020", "role checkpoint"), (["cp", c, "s3://b/x"], "E-S3-020", "role checkpoint"),
        (["show", folder], "E-CKPT-007", f"{folder}/latest"), (["cp", c, f"{folder}/x/step-4"], "E-ENV-004", "step-4"),
    ]:
        expect_failure(ck(*arguments), 2, code, words)
    for arguments, code, words in [
        (["show", f"{folder}/none"], "E-CKPT-030", "No such file"), (["ls", f"{folder}/none"], "E-CKPT-002", "No such"),
        (["show", f"{c}/experiment.json"], "E-CKPT-030", "Not a directory"),
        (["diff", c, f"{folder}/none"], "E-CKPT-030", "none"), (["cp", f"{folder}/none", folder], "E-CKPT-002", "none"),
        (["cp", f"{folder}/step-9", folder], "E-CKPT-030", "step-9"),
        (["cp", c, f"{c}/experiment.json"], "E-CKPT-002", "Not a directory"),
    ]:
        expect_failure(ck(*arguments), 4, code, words)


@test
def the_tool_has_nothing_of_libsexp(_):
    names = subprocess.run(["nm", TOOL], capture_output=True, text=True).stdout
    expect("ckpt_checkpoint_open" in names, names[:200])
    expect(not re.search(r" (sexp|sx)_", names), re.findall(r" (?:sexp|sx)_\w+", names)[:5])
    expect("libsexp" not in subprocess.run(["ldd", TOOL], capture_output=True, text=True).stdout)


# ---- show, ls, tensors, choices ---------------------------------------------------------------------------

@test
def show_is_a_page_of_what_the_run_was(folder):
    place = run(folder, "runs", "--steps", "3", "--set", "lr=0.2")
    page = good("show", f"{place}/step-3")
    experiment = json.loads(read(f"{place}/step-3/experiment.json"))
    for label, words in [("checkpoint", "step-3"), ("run", "defrun linear, seed 1"), ("step", "3, 3 records, stage 0"),
                         ("file", "linear.sexp, sha256:"), ("knob", "lr = 0.2 (set)"), ("knob", "steps = 3 (override)"),
                         ("parameters", "2 tensors, 4 elements, 16 bytes"), ("choices", "cpu, numerics 1; digest sha256:"),
                         ("tool", experiment["tool"]["version"]), ("created", experiment["created"]),
                         ("identity", experiment["identity"]), ("digest", experiment["digest"])]:
        expect(any(line.startswith(f"{label:<20}") and words in line for line in page.splitlines()), label, words, page)
    expect(re.search(r"^ {20}w  f32  \[3 1\]$", page, re.M), page)
    size = sum(len(raw) for raw in tree(f"{place}/step-3").values())
    shown = lines("show", "--json", f"{place}/step-3")
    expect(not schema_errors("checkpoint-show.json", shown), schema_errors("checkpoint-show.json", shown))
    expect(shown[0]["size"] == size)
    del experiment["seal"]
    expect(shown[0]["experiment"] == experiment)


@test
def ls_lists_the_whole_and_the_torn(folder):
    place = f"{folder}/runs"
    os.makedirs(f"{place}/step-1")
    for step in (2, 30, 400, 5, 6, 7, 8):
        write_checkpoint(f"{place}/step-{step}", {"w": f32(step)}, step=step)
    os.remove(f"{place}/step-5/states.safetensors")
    flip(f"{place}/step-6/experiment.json", 40)
    os.truncate(f"{place}/step-7/parameters.safetensors", 10)
    write(f"{place}/step-8/experiment.json", sealed({"version": 2}))
    for name in ("step-x", "step-01", ".tmp-step-9-1-0", "other"):
        os.makedirs(f"{place}/{name}")
    text = good("ls", place).splitlines()
    expect([line.split()[0] for line in text] == ["step"] + [f"step-{n}" for n in (1, 2, 5, 6, 7, 8, 30, 400)], text)
    for step, words in [(1, "torn (no experiment.json), not used"), (5, "torn (a file is missing or cut off), not used"),
                        (6, "experiment.json"), (7, "a file is missing or cut off"), (8, "written by a later version"),
                        (30, "2026-01-02 03:04:05")]:
        expect(any(line.startswith(f"step-{step} ") and words in line for line in text), step, words, text)
    entries = lines("ls", "-j", place)
    expect(not schema_errors("checkpoint-ls.json", entries), schema_errors("checkpoint-ls.json", entries))
    whole = [e for e in entries if e["complete"]]
    expect([e["step"] for e in whole] == [2, 30, 400], whole)
    expect(whole[0]["digest"] == digest({"w": f32(2)}, {}) and os.path.isdir(whole[0]["path"]))
    os.makedirs(f"{folder}/empty")
    result = ck("ls", f"{folder}/empty")
    expect(result.returncode == 0 and result.stdout == "" and "no checkpoints" in result.stderr, result)


@test
def choices_are_those_of_the_run(folder):
    place = run(folder, "runs", "--steps", "2")
    text = good("choices", f"{place}/latest")
    expect(json.loads(text) == json.loads(read(f"{place}/step-2/experiment.json"))["choices"] and text.count("\n") == 1)
    reported = re.search(r"digest (sha256:\w+)", tool(LINEAR, "--steps", "2", "--explain").stdout).group(1)
    expect(lines("ls", "--json", place)[0]["choices"] == reported)
    expect(good("ls", place).splitlines()[1].endswith(reported[7:13] + "…"))
    c = write_checkpoint(f"{folder}/step-3", {"w": f32(1)}, choices=None)
    expect(good("choices", c) == "null\n")


@test
def tensors_are_listed(folder):
    parameters = {"b": ("bf16", [2], b"\0" * 4), "a/w": ("f64", [2, 0, 3], b""), "s": ("i32", [], b"\1\0\0\0")}
    c = write_checkpoint(f"{folder}/step-3", parameters, {"a/w": ("bool", [3], b"\0\1\0")})
    listed = lines("tensors", "--json", c)
    expect(not schema_errors("checkpoint-tensors.json", listed))
    expect([(t["kind"], t["path"], t["dtype"], t["shape"], t["bytes"]) for t in listed] ==
           [("parameter", "a/w", "f64", [2, 0, 3], 0), ("parameter", "b", "bf16", [2], 4), ("parameter", "s", "i32", [], 4),
            ("state", "a/w", "bool", [3], 3)], listed)
    rows = [re.split(r"  +", line) for line in good("tensors", c).splitlines()]
    expect(rows[1] == ["b", "bf16", "[2]", "4", "parameter"] and len(rows) == 4, rows)


# ---- digest, verify ---------------------------------------------------------------------------------------

@test
def digests_are_those_of_the_definition(folder):
    parameters = {"w": f32(1, 2, 3), "é/b": ("f16", [1, 2], b"\0\x3c\0\xbc")}
    states = {"m": ("u8", [3], b"abc"), "empty": ("i64", [0], b"")}
    c = write_checkpoint(f"{folder}/step-3", parameters, states)
    want = digest(parameters, states)
    expect(good("digest", c, f"{c}/") == f"{want}  {c}\n{want}  {c}/\n", good("digest", c))
    other = write_checkpoint(f"{folder}/step-4", parameters, states, digest="sha256:" + "0" * 64)
    expect(good("digest", other).split()[0] == want)
    expect(good("digest", "--recorded", other).split()[0] == "sha256:" + "0" * 64)
    result = ck("verify", c, other)
    expect(result.returncode == 1 and f"{c}: ok {want}\n" in result.stdout and "E-CKPT-014" in result.stdout, result)
    result = ck("digest", f"{folder}/none", c)
    expect(result.returncode == 4 and want in result.stdout and "E-CKPT-030" in result.stderr, result)


@test
def a_flipped_bit_anywhere_is_found(folder):
    place = run(folder, "runs", "--steps", "2")
    c, chosen, tried = f"{place}/step-2", random.Random(7), 0
    expect(good("verify", "-q", c) == "")
    for name in os.listdir(c):
        raw = read(f"{c}/{name}")
        offsets = range(len(raw)) if len(raw) < 400 else sorted(chosen.sample(range(len(raw)), 60 if QUICK else 250))
        for offset in offsets:
            flip(f"{c}/{name}", offset, chosen.randrange(8))
            result = ck("verify", c)
            expect(result.returncode == 1 and ": E-" in result.stdout, name, offset, result)
            write(f"{c}/{name}", raw)
            tried += 1
    print(f"{tried} flipped bits, each found")
    good("verify", c)


@test
def verify_tells_wrong_from_unreadable(folder):
    c = write_checkpoint(f"{folder}/step-3", {"w": f32(1)}, {"m": f32(2)})
    whole = tree(c)
    for change, code in [(lambda: os.remove(f"{c}/states.safetensors"), "E-CKPT-011"),
                         (lambda: os.truncate(f"{c}/states.safetensors", 5), "E-CKPT-011"),
                         (lambda: os.remove(f"{c}/experiment.json"), "E-CKPT-007"),
                         (lambda: write(f"{c}/experiment.json", whole["experiment.json"][:-40]), "E-CKPT-008"),
                         (lambda: write(f"{c}/experiment.json", sealed({"version": 2})), "E-CKPT-009"),
                         (lambda: write(f"{c}/experiment.json", whole["experiment.json"].replace(b"made-0001", b"made-0002")),
                          "E-CKPT-010"),
                         (lambda: shutil.copy(f"{c}/parameters.safetensors", f"{c}/states.safetensors"), "E-CKPT-013"),
                         (lambda: flip(f"{c}/parameters.safetensors", len(whole["parameters.safetensors"]) - 1),
                          "E-CKPT-012")]:
        change()
        result = ck("verify", c)
        expect(result.returncode == 1 and code in result.stdout and not result.stderr, code, result)
        for name, raw in whole.items():
            write(f"{c}/{name}", raw)
    good("verify", c)
    expect(ck("verify", c, f"{folder}/none").returncode == 4)
    if os.geteuid() == 0:
        os.chmod(folder, 0o755)
        own = shutil.copy(TOOL, f"{folder}/tool")
        os.chmod(f"{c}/states.safetensors", 0)
        result = ck("verify", c, tool=own, user=NOBODY)
        expect(result.returncode == 4 and "Permission denied" in result.stdout, result)
        os.chmod(f"{c}/states.safetensors", 0o644)
        os.chmod(c, 0)
        for command in ("show", "tensors", "verify", "digest"):
            result = ck(command, c, tool=own, user=NOBODY)
            expect(result.returncode == 4 and "Permission denied" in result.stdout + result.stderr, command, result)


# ---- diff -------------------------------------------------------------------------------------------------

def difference(folder, left, right, status=1, **members):
    """The parsed diff of two checkpoints, and its text."""
    a = left if isinstance(left, str) else write_checkpoint(f"{folder}/a/step-3", left)
    b = right if isinstance(right, str) else write_checkpoint(f"{folder}/b/step-3", right, **members)
    text, parsed = ck("diff", a, b), ck("diff", "--json", a, b)
    expect(text.returncode == parsed.returncode == status and not text.stderr, text)
    record = json.loads(parsed.stdout)
    expect(not schema_errors("checkpoint-diff.json", [record]), schema_errors("checkpoint-diff.json", [record]))
    expect(record["same"] == (status == 0))
    if not isinstance(left, str):
        shutil.rmtree(f"{folder}/a")
    if not isinstance(right, str):
        shutil.rmtree(f"{folder}/b")
    return record, text.stdout


@test
def equal_runs_are_the_same_and_others_are_not(folder):
    a, b = run(folder, "a", "--steps", "4"), run(folder, "b", "--steps", "4")
    record, text = difference(folder, f"{a}/latest", f"{b}/step-4", status=0)
    expect(record["facts"] == [] and record["differing"] == [] and text.endswith("tensors are the same\n"), text)
    c = run(folder, "c", "--steps", "4", "--set", "lr=0.125")
    record, text = difference(folder, f"{a}/latest", f"{c}/latest")
    facts = {(f["group"], f["name"]): (f["left"], f["right"]) for f in record["facts"]}
    expect(facts[("knobs", "lr")] == ("0.1", "0.125"), facts)
    expect(set(facts) == {("knobs", "lr"), ("identity", ""), ("choices", "graph")}, facts)
    expect("knob lr" in text and "0.1 | 0.125" in text and re.search(r"^w .* ulp \(.*first at \[0 0\]$", text, re.M), text)
    expect({t["path"] for t in record["differing"]} >= {"w", "b"}, record)
    d = run(folder, "d", "--steps", "3")
    record, text = difference(folder, f"{a}/latest", f"{d}/latest")
    expect({f["name"] for f in record["facts"]} == {"steps", "step", "records"}, record["facts"])
    expect(ck("diff", "--tensors", f"{a}/latest", f"{b}/latest").stdout.count("\n") == 1)


@test
def missing_tensors_dtypes_and_shapes_are_told(folder):
    record, text = difference(
        folder, {"only a": f32(1), "dtype": f32(1, 2), "shape": f32(1, 2), "same": f32(1), "rank": f32(1)},
        {"only b": f32(1), "dtype": ("i32", [2], b"\0" * 8), "shape": ("f32", [2, 1], b"\0" * 8), "same": f32(1),
         "rank": ("f32", [], b"\0" * 4)})
    by = {t["path"]: t for t in record["differing"]}
    expect(set(by) == {"only a", "only b", "dtype", "shape", "rank"} and record["tensors"] == 6, record)
    expect(by["only a"]["right"] is None and by["only b"]["left"] is None and "elements" not in by["dtype"], by)
    for line in ("only a  only in a: f32 [1]", "only b  only in b: f32 [1]", "dtype   f32 [2] | i32 [2]",
                 "shape   f32 [2] | f32 [2 1]", "rank    f32 [1] | f32 []", "5 of 6 tensors differ"):
        expect(line in text, line, text)


@test
def distances_in_ulps(folder):
    for left, right, differing, nan, ulps, value, words in [
        (bits32(0x3f800000, 0), bits32(0x3f800001, 0), 1, 0, 1, 2 ** -23, "1 of 2 elements differ, at most 1 ulp (1.2e-07)"),
        (bits32(0, 0x80000000), bits32(0x80000000, 0x80000000), 1, 0, 0, 0, "in the sign of zero alone"),
        (bits32(0, 1), bits32(0, 0x80000001), 1, 0, 2, 2 ** -148, "at most 2 ulp (2.8e-45), first at [1]"),
        (bits32(0x7fc00000), bits32(0x3f800000), 1, 1, None, None, "all of them NaN on one side"),
        (bits32(0x7fc00000, 5), bits32(1, 6), 2, 1, 1, 2 ** -149, "1 of them NaN on one side"),
        (bits32(0x7f7fffff), bits32(0x7f800000), 1, 0, 1, None, "at most 1 ulp (inf)"),
        (("f64", [1], struct.pack("<d", float("inf"))), ("f64", [1], struct.pack("<d", -float("inf"))), 1, 0,
         str(2 * 0x7ff0000000000000), None, "18437736874454810624 ulp"),
        (("bf16", [1], b"\x80\x3f"), ("bf16", [1], b"\x80\xbf"), 1, 0, 2 * 0x3f80, 2, "32 512 ulp (2)"),
        (("i8", [2], b"\0\x80"), ("i8", [2], b"\0\x7f"), 1, 0, None, 255, "1 of 2 elements differ, at most 255, first at [1]"),
        (("u64", [1], b"\0" * 8), ("u64", [1], b"\xff" * 8), 1, 0, None, 2.0 ** 64, "1.8446744073709552e+19"),
        (("bool", [3], b"\0\1\1"), ("bool", [3], b"\1\1\0"), 2, 0, None, 1, "2 of 3"),
    ]:
        record, text = difference(folder, {"t": left}, {"t": right})
        found = record["differing"][0]
        expect((found["differing"], found["nan"], found["ulps"], found["value"]) == (differing, nan, ulps, value), found)
        expect(words in text, words, text)
    record, _ = difference(folder, {"t": bits32(0x7fc00000, 0x7f800001)}, {"t": bits32(0xffc12345, 0x7fc00000)}, status=0)
    raw = bytearray(4 * 6 * 50000)
    changed = bytes(raw[:4 * 250007]) + b"\1" + bytes(raw[4 * 250007 + 1:])
    record, _ = difference(folder, {"t": ("f32", [6, 50000], bytes(raw))}, {"t": ("f32", [6, 50000], changed)})
    expect(record["differing"][0]["first"] == [5, 7], record)


@test
def facts_are_told_with_both_values(folder):
    include = {**source("x/made.sexp", "(defrun made)\n"), "includes": [source("lib.sexp", "1")]}
    record, text = difference(
        folder, {"w": f32(1)}, {"w": f32(1)}, file=include, seed=2, knobs=[{"name": "lr", "value": "a | b", "source": "set"}],
        data=[{"name": "text", "source": "kjv.txt", "size": 7, "version": "sha256:00"}], world={"gpus": 2, "nodes": 1},
        choices={"device": "gpu", "numerics": 1, "products": {"a \"q\" {1, 2} b": "split 4"}, "strict": False},
        tool={"version": "0.2.0", "build": "none"}, selection={"run": "made", "variant": "big"})
    facts = {(f["group"], f["name"]): (f["left"], f["right"]) for f in record["facts"]}
    expect(facts[("seed", "")] == ("1", "2") and facts[("world", "gpus")] == ("0", "2"), facts)
    expect(facts[("choices", "device")] == ("cpu, numerics 1", "gpu") and ("choices", "numerics") not in facts, facts)
    expect(facts[("choices", "products")][0] is None and facts[("tool", "version")] == ("0.1.0", "0.2.0"), facts)
    expect(facts[("file", "include")][0] is None and ("file", "") not in facts, facts)
    expect(facts[("selection", "variant")] == (None, "big") and facts[("knobs", "lr")] == (None, '"a | b"'), facts)
    for words in ("same             position, identity", "seed             1 | 2", "choices device   cpu, numerics 1 | gpu",
                  "all 1 tensor are the same"):
        expect(words.split("  ")[0] in text and words.split("  ")[-1].strip() in text, words, text)
    products = {"device": "d", "products": {"a \"q\" {1, 2} b": "split 4", "c": "x"}}
    other = {"device": "d", "products": {"c": "y", "a \"q\" {1, 2} b": "split 4"}}
    a = write_checkpoint(f"{folder}/p/step-3", {"w": f32(1)}, choices=products)
    b = write_checkpoint(f"{folder}/q/step-3", {"w": f32(1)}, choices=other)
    record, text = difference(folder, a, b)
    expect([(f["name"], f["left"], f["right"]) for f in record["facts"]] == [("products c", "x", "y")], record)
    expect(ck("diff", "--tensors", a, b).returncode == 0)


# ---- get --------------------------------------------------------------------------------------------------

def npy(raw):
    import ast
    expect(raw[:8] == b"\x93NUMPY\1\0", raw[:10])
    n = struct.unpack("<H", raw[8:10])[0]
    expect((10 + n) % 64 == 0 and raw[9 + n:10 + n] == b"\n", n)
    return ast.literal_eval(raw[10:10 + n].decode()), raw[10 + n:]


@test
def get_writes_npy(folder):
    raw = bytes(range(240)) * 2
    types = {"f32": "<f4", "f16": "<f2", "f64": "<f8", "i64": "<i8", "i32": "<i4", "i16": "<i2", "i8": "|i1", "u64": "<u8",
             "u32": "<u4", "u16": "<u2", "u8": "|u1"}
    parameters = {d: (d, [2, len(raw) // WIDTHS[d] // 2], raw) for d in types}
    parameters.update({"bool": ("bool", [3], b"\0\1\1"), "bf16": ("bf16", [2], b"\x80\x3f\x01\x80"), "scalar": f32(4)[:1] + ([], struct.pack("<f", 4)),
                       "empty": ("f32", [0, 3], b""), "large": ("bf16", [600000], bytes(range(250)) * 4800)})
    c = write_checkpoint(f"{folder}/step-3", parameters, {"u8": ("u8", [2], b"ab"), "only": ("u8", [1], b"z")})
    for dtype, name in types.items():
        head, body = npy(good("get", c, dtype, text=False))
        expect(head == {"descr": name, "fortran_order": False, "shape": tuple(parameters[dtype][1])} and body == raw, head)
    expect(npy(good("get", c, "bool", text=False)) == ({"descr": "|b1", "fortran_order": False, "shape": (3,)}, b"\0\1\1"))
    head, body = npy(good("get", c, "bf16", text=False))
    expect(head["descr"] == "<f4" and struct.unpack("<2f", body) == (1.0, -2.0 ** -133), head, body)
    expect(npy(good("get", c, "scalar", text=False))[0]["shape"] == ())
    expect(npy(good("get", c, "empty", text=False)) == ({"descr": "<f4", "fortran_order": False, "shape": (0, 3)}, b""))
    body = npy(good("get", c, "large", text=False))[1]
    expect(body == b"".join(b"\0\0" + parameters["large"][2][i:i + 2] for i in range(0, 1200000, 2)))
    expect(npy(good("get", "--state", c, "u8", text=False))[1] == b"ab")
    expect(npy(good("get", c, "only", text=False))[1] == b"z")
    expect_failure(ck("get", "--state", c, "f32"), 2, "E-LOAD-101", "f32")


@test
def binary_output_is_refused_on_a_terminal(folder):
    c = write_checkpoint(f"{folder}/step-3", {"w": f32(1)})
    for arguments in (["get", c, "w"], ["bundle", c, "-"]):
        parent, child = pty.openpty()
        result = subprocess.run([TOOL, *arguments], stdout=child, stderr=subprocess.PIPE, text=True)
        os.close(child), os.close(parent)
        expect(result.returncode == 2 and "E-ENV-010" in result.stderr, result)


# ---- cp ---------------------------------------------------------------------------------------------------

@test
def cp_copies_one_or_all(folder):
    a = run(folder, "a", "--steps", "2")
    run(folder, "a", "--steps", "5")
    os.makedirs(f"{a}/step-7")
    expect(re.fullmatch(r"step-2 copied, [0-9.]+ KiB\n", good("cp", f"{a}/step-2", f"{folder}/b")))
    expect(tree(f"{folder}/b") == {k: v for k, v in tree(a).items() if k.startswith("step-2/")})
    expect(good("cp", f"{a}/step-2/", f"{folder}/b") == "step-2 is there already\n")
    result = ck("cp", a, f"{folder}/deep/er/b")
    expect(result.returncode == 0 and "step-7 is torn (no experiment.json), not copied" in result.stderr, result)
    expect(tree(f"{folder}/deep/er/b") == tree(a) and sorted(os.listdir(f"{folder}/deep/er/b")) == ["step-2", "step-5"])
    good("cp", "-q", f"{a}/step-5", f"{folder}/c/step-5")
    expect(os.listdir(f"{folder}/c") == ["step-5"])
    result = ck("cp", f"{a}/latest", f"{folder}/d")
    expect(result.returncode == 0 and os.listdir(f"{folder}/d") == ["step-5"] and "step-7 is torn, not used" in result.stderr)
    other = run(folder, "other", "--steps", "2", "--set", "lr=0.5")
    before = tree(f"{folder}/b")
    expect_failure(ck("cp", f"{other}/step-2", f"{folder}/b"), 2, "E-CKPT-031", "digest")
    expect(tree(f"{folder}/b") == before)
    good("cp", "--replace", f"{other}/step-2", f"{folder}/b")
    expect(tree(f"{folder}/b") == tree(other))


@test
def cp_checks_what_it_reads_and_mends_what_is_there(folder):
    c = write_checkpoint(f"{folder}/a/step-3", {"w": f32(1)}, {"m": f32(2)})
    good("cp", "-q", c, f"{folder}/b")
    flip(f"{folder}/b/step-3/states.safetensors", -1)
    good("cp", "-q", c, f"{folder}/b")
    expect(tree(f"{folder}/b/step-3") == tree(c))
    flip(f"{c}/states.safetensors", -1)
    expect_failure(ck("cp", c, f"{folder}/d"), 1, "E-CKPT-012", "states.safetensors")
    expect(os.listdir(f"{folder}/d") == [])


@test
def a_killed_cp_goes_on(folder):
    sizes = 6_000_000
    rng = random.Random(3)
    c = write_checkpoint(f"{folder}/a/step-3", {"w": ("u8", [sizes], rng.randbytes(sizes))},
                         {f"m{i}": ("u8", [sizes], rng.randbytes(sizes)) for i in range(2)})
    begin = time.time()
    good("cp", c, f"{folder}/b")
    whole_s = time.time() - begin
    shutil.rmtree(f"{folder}/b")
    kills = partial = resumed = 0
    for i in range(12 if QUICK else 40):
        process = subprocess.Popen([TOOL, "cp", c, f"{folder}/b"], stdout=subprocess.DEVNULL)
        time.sleep(rng.random() * whole_s)
        process.kill()
        done = process.wait() == 0
        kills += not done
        partial += os.path.isdir(f"{folder}/b/.copy-step-3")
        if os.path.isdir(f"{folder}/b/step-3"):
            good("verify", f"{folder}/b/step-3")
        if i % 4 == 3:
            result = good("cp", c, f"{folder}/b")
            resumed += "were there" in result
            expect(tree(f"{folder}/b") == {f"step-3/{k}": v for k, v in tree(c).items()}, os.listdir(f"{folder}/b"))
            shutil.rmtree(f"{folder}/b")
    print(f"{kills} copies killed, {partial} left part of one, {resumed} went on from whole files")
    expect(kills > 0 and partial > 0)


@test
def a_full_disk_ends_cp_and_bundle_and_leaves_nothing_half(folder):
    n = 400_000
    c = write_checkpoint(f"{folder}/a/step-3", {"w": ("u8", [1000], bytes(1000))}, {"m": ("u8", [n], bytes(n))})

    def small():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    expect_failure(ck("cp", c, f"{folder}/b", preexec_fn=small), 4, "E-CKPT-004", "states.safetensors", "File too large")
    expect(os.listdir(f"{folder}/b") == [".copy-step-3"], os.listdir(f"{folder}/b"))
    expect("were there from an earlier copy" in good("cp", c, f"{folder}/b"))
    expect(os.listdir(f"{folder}/b") == ["step-3"])
    expect_failure(ck("bundle", c, f"{folder}/out.tar", preexec_fn=small), 4, "E-CKPT-033", "out.tar", "File too large")
    expect(not [name for name in os.listdir(folder) if "out.tar" in name])
    expect_failure(ck("bundle", c, "/dev/full"), 4, "E-CKPT-033", "No space left")
    expect(not os.path.isfile("/dev/full"))
    disk = f"{folder}/disk"
    os.makedirs(disk)
    if os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "none", disk],
                                            capture_output=True).returncode == 0:
        try:
            expect_failure(ck("cp", c, disk), 4, "E-CKPT-004", "No space left")
            expect(os.listdir(disk) == [".copy-step-3"])
            expect_failure(ck("bundle", c, f"{disk}/x.tar"), 4, "E-CKPT-033", "No space left")
        finally:
            subprocess.run(["umount", disk])
    else:
        print("no tmpfs here: the size limit of files stands for the full disk")


@test
def permissions_are_said(folder):
    c = write_checkpoint(f"{folder}/a/step-3", {"w": f32(1)})
    os.makedirs(f"{folder}/locked/step-1")
    for path in (folder, f"{folder}/a", c, f"{folder}/locked"):
        os.chmod(path, 0o755)
    who = {}
    if os.geteuid() == 0:
        who = {"user": NOBODY, "tool": shutil.copy(TOOL, f"{folder}/tool")}
    else:
        os.chmod(f"{folder}/locked", 0o555)
    expect_failure(ck("cp", c, f"{folder}/locked", **who), 4, "E-CKPT-002", "Permission denied")
    expect_failure(ck("bundle", c, f"{folder}/locked/x.tar", **who), 4, "E-CKPT-033", "Permission denied")
    if os.geteuid() == 0:
        write_checkpoint(f"{folder}/a/step-4", {"w": f32(1)}, step=4)
        expect_failure(ck("prune", f"{folder}/a", "--keep", 1, **who), 4, "E-CKPT-004", "step-3")
        expect(os.path.exists(f"{c}/experiment.json"))


# ---- bundle -----------------------------------------------------------------------------------------------

MODEL = """(include "lib/é model.sexp")
(defrun r :seed 1 :steps 2 :loss (let ((w (param "w" [2 3] :load (weights "%s" "a")))) (mean (f (* w w))))
  :optimizer (adamw :lr 0.1))
"""
WEIGHTS = {"a": ("f32", [2, 3], struct.pack("<6f", *range(6)))}


def experiment_of(folder, weights):
    write(f"{folder}/exp/lib/é model.sexp", "(defun f (x) x)\n")
    return write(f"{folder}/exp/main.sexp", MODEL % weights)


def unpack(archive, to):
    os.makedirs(to)
    subprocess.run(["tar", "xf", archive, "-C", to], check=True)
    tops = os.listdir(to)
    expect(len(tops) == 1, tops)
    return os.path.join(to, tops[0])


@test
def a_bundle_holds_what_a_run_elsewhere_needs(folder):
    experiment_of(folder, "../weights/w.safetensors")
    write(f"{folder}/weights/w.safetensors", safetensors(WEIGHTS))
    result = tool("exp/main.sexp", "--checkpoint-dir", "runs", "--quiet", "--metrics", "jsonl:m", cwd=folder)
    expect(result.returncode == 0, result.stderr)
    good("bundle", "runs/step-2", "out.tar", "--root", "exp", cwd=folder)
    expect(good("bundle", "runs/latest", "-", "--root", "exp", cwd=folder, text=False) == read(f"{folder}/out.tar"))
    top = unpack(f"{folder}/out.tar", f"{folder}/elsewhere")
    files = tree(top)
    expect(sorted(files) == sorted([f"step-2/{n}" for n in os.listdir(f"{folder}/runs/step-2")] +
                                   ["work/main.sexp", "work/lib/é model.sexp", "weights/w.safetensors"]), sorted(files))
    expect(tree(f"{top}/step-2") == tree(f"{folder}/runs/step-2"))
    expect(files["weights/w.safetensors"] == safetensors(WEIGHTS))
    good("verify", f"{top}/step-2")
    result = tool("exp/main.sexp", "--steps", "5", "--checkpoint-dir", "whole", "--quiet", cwd=folder)
    expect(result.returncode == 0, result.stderr)
    for name in ("exp", "weights"):
        shutil.rmtree(f"{folder}/{name}")
    result = tool("work/main.sexp", "--resume", "step-2", "--steps", "5", "--checkpoint-dir", "again", "--quiet", cwd=top)
    expect(result.returncode == 0, result.stderr)
    good("diff", f"{folder}/whole/step-5", f"{top}/again/step-5")


@test
def a_bundle_takes_an_index_with_its_shards(folder):
    experiment_of(folder, "w.safetensors.index.json")
    write(f"{folder}/exp/w-1.safetensors", safetensors(WEIGHTS))
    write(f"{folder}/exp/w-2.safetensors", safetensors({"z": f32(1)}))
    write(f"{folder}/exp/w.safetensors.index.json",
          json.dumps({"metadata": {}, "weight_map": {"a": "w-1.safetensors", "z": "w-2.safetensors"}}))
    write(f"{folder}/exp/x.safetensors.index.json", json.dumps({"weight_map": {"z": "w-2.safetensors"}}))
    result = tool("main.sexp", "--checkpoint-dir", "../runs", "--quiet", cwd=f"{folder}/exp")
    expect(result.returncode == 0, result.stderr)
    good("bundle", "../runs/step-2", "../out.tar", cwd=f"{folder}/exp")
    top = unpack(f"{folder}/out.tar", f"{folder}/elsewhere")
    expect({"main.sexp", "w-1.safetensors", "w-2.safetensors", "w.safetensors.index.json"} <= set(os.listdir(top)))
    expect("x.safetensors.index.json" not in os.listdir(top))
    result = tool("main.sexp", "--checkpoint-dir", "again", "--quiet", cwd=top)
    expect(result.returncode == 0, result.stderr)
    write(f"{folder}/exp/w-1.safetensors", safetensors({"a": ("f32", [2, 3], bytes(24))}))
    expect_failure(ck("bundle", "../runs/step-2", "../two.tar", cwd=f"{folder}/exp"), 2, "E-CKPT-032", "w-1.safetensors")
    os.remove(f"{folder}/exp/w-1.safetensors")
    expect_failure(ck("bundle", "../runs/step-2", "../two.tar", cwd=f"{folder}/exp"), 4, "E-DATA-101", "w-1.safetensors")
    expect(not os.path.exists(f"{folder}/two.tar"))


@test
def names_that_ustar_cannot_say(folder):
    for name in ("a" * 100, "b" * 101, "d/" * 60 + "c" * 60, "e" * 150 + "/" + "f" * 100, "x" * 160 + "/" + "y" * 120, "é" * 60,
                 "sp ace/new\nline", "../../up/x", "/abs/olute", "/abs/other"):
        members = {"file": {**source(name, f"text of {name}"), "includes": [source("in.sexp", "i")]}}
        c = write_checkpoint(f"{folder}/step-3", {"w": f32(1)}, **members)
        result = ck("bundle", c, f"{folder}/o.tar")
        expect(result.returncode == 0, result.stderr)
        top = unpack(f"{folder}/o.tar", f"{folder}/out")
        found = [k for k, v in tree(top).items() if v == f"text of {name}".encode()]
        expect(len(found) == 1 and os.path.basename(found[0]) == os.path.basename(name), name, found)
        if not name.startswith(("..", "/")):
            expect(found[0] == name, found)
        for d in ("step-3", "out"):
            shutil.rmtree(f"{folder}/{d}")
    damaged = write_checkpoint(f"{folder}/step-3", {"w": f32(1)})
    flip(f"{damaged}/parameters.safetensors", -1)
    expect_failure(ck("bundle", damaged, f"{folder}/p.tar"), 1, "E-CKPT-012", "parameters")
    expect(not os.path.exists(f"{folder}/p.tar"))


# ---- prune ------------------------------------------------------------------------------------------------

@test
def prune_keeps_the_newest(folder):
    place = f"{folder}/runs"
    for step in range(1, 8):
        write_checkpoint(f"{place}/step-{step}", {"w": f32(step)}, step=step)
    for step in (2, 6):
        os.remove(f"{place}/step-{step}/experiment.json")
    before = tree(place)
    expect(good("prune", place, "--keep", 9) == "")
    expect(good("prune", place, "--keep", 2, "--dry-run") ==
           "".join(f"step-{n} would be removed\n" for n in (1,)) + "step-2 (torn) would be removed\n" +
           "step-3 would be removed\nstep-4 would be removed\n")
    expect(tree(place) == before)
    expect("step-2 (torn) removed" in good("prune", place, "-k2"))
    expect(sorted(os.listdir(place)) == ["step-5", "step-6", "step-7"])
    write(f"{place}/step-5/sub/file", "x")
    write_checkpoint(f"{place}/step-4", {"w": f32(4)}, step=4)
    result = ck("prune", place, "--keep", 1)
    expect(result.returncode == 4 and "E-CKPT-004" in result.stderr and "step-4 removed" in result.stdout, result)
    expect(os.path.exists(f"{place}/step-5/sub/file"))


# ---- outputs, names ---------------------------------------------------------------------------------------

@test
def a_full_standard_output_is_an_error(folder):
    c = write_checkpoint(f"{folder}/step-3", {"w": f32(1)})
    for arguments in (["show", c], ["ls", folder], ["tensors", c], ["choices", c], ["get", c, "w"], ["digest", c],
                      ["verify", c], ["diff", c, c], ["bundle", c, "-"], ["cp", c, f"{folder}/b"], ["--help"]):
        with open("/dev/full", "w") as full:
            result = subprocess.run([TOOL, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
        expect(result.returncode == 4 and "E-ENV-012" in result.stderr, arguments, result)


@test
def a_pipe_that_closes_early_ends_quietly(folder):
    n = 3_000_000
    c = write_checkpoint(f"{folder}/step-3", {f"p{i}": f32(i) for i in range(3000)}, {"m": ("u8", [n], bytes(n))})
    for command in (f"show {c}", f"tensors {c}", f"tensors --json {c}", f"get {c} m", f"bundle {c} -"):
        result = subprocess.run(["bash", "-c", f"{TOOL} {command} | head -c 10 > /dev/null; echo ${{PIPESTATUS[0]}}"],
                                capture_output=True, text=True)
        expect(result.stdout == f"{128 + signal.SIGPIPE}\n" and result.stderr == "", command, result)


@test
def odd_names_work(folder):
    for name in ("a b", "new\nline", "-dash", "é…", "quote'\"", "per%cent%s", "latest"):
        place = f"{folder}/{name}"
        write_checkpoint(f"{place}/step-3", {"w": f32(1)})
        for c in (f"{name}/step-3", f"{name}/step-3/", f"{name}//step-3", f"./{name}/latest"):
            good("verify", "--", c, cwd=folder)
        expect(len(lines("ls", "--json", "--", name, cwd=folder)) == 1)
        good("cp", "-q", "--", name, f"{name}.copy", cwd=folder)
        expect(tree(f"{folder}/{name}.copy") == tree(place))
        good("bundle", "--", f"{name}/step-3", f"{name}.tar", cwd=folder)
        expect(b"\n" not in good("verify", "--", f"{name}/step-3", cwd=folder, text=False)[:-1])
    good("show", "latest", cwd=f"{folder}/a b")
    good("show", ".", cwd=f"{folder}/a b/step-3")
    c = write_checkpoint(f"{folder}/z/step-3", {"\x1b[2Jw\n": f32(1), "q\"": f32(2)}, slug="\x1b]0;x\x07")
    for command in ("show", "tensors"):
        expect("\x1b" not in good(command, c) and "?[2Jw?" in good(command, c))
    expect({t["path"] for t in lines("tensors", "--json", c)} == {"\x1b[2Jw\n", "q\""})


@test
def latest_says_what_it_leaves_out(folder):
    for step in (3, 5, 9):
        write_checkpoint(f"{folder}/runs/step-{step}", {"w": f32(step)}, step=step)
    os.truncate(f"{folder}/runs/step-9/parameters.safetensors", 3)
    os.makedirs(f"{folder}/runs/step-12")
    result = ck("digest", f"{folder}/runs/latest")
    expect(result.returncode == 0 and result.stdout.startswith(digest({"w": f32(5)}, {})), result)
    expect(result.stderr == f"{folder}/runs/step-9 is torn, not used\n{folder}/runs/step-12 is torn, not used\n", result)
    os.makedirs(f"{folder}/none")
    expect_failure(ck("show", f"{folder}/none/latest"), 2, "E-CKPT-015", "found 0 torn")


@test
def a_large_diff_takes_constant_memory(folder):
    n = 20_000_000 if QUICK else 100_000_000
    a = write_checkpoint(f"{folder}/a/step-3", {"w": ("u8", [n], bytes(n))})
    b = write_checkpoint(f"{folder}/b/step-3", {"w": ("u8", [n], bytes(n - 1) + b"\1")})
    script = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); "
              "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    result = subprocess.run([sys.executable, "-c", script, TOOL, "diff", a, b], capture_output=True, text=True)
    kib = int(result.stdout)
    print(f"{kib} KiB for two checkpoints of {n // 1000} kB")
    expect(kib < 16 * 1024 or "asan" in BUILD or "tsan" in BUILD, kib)


@test
def completion_knows_commands_and_options(_):
    script = ("source tools/sexpgpu-checkpoint/completion.bash; complete_words() { COMP_WORDS=(\"$@\"); "
              "COMP_CWORD=$(($# - 1)); COMPREPLY=(); _sexpgpu_checkpoint; echo \"${COMPREPLY[@]}\"; }; "
              "complete_words sexpgpu-checkpoint di; complete_words sexpgpu-checkpoint diff --te")
    env = {**os.environ, "PATH": os.path.join(BUILD, "bin") + ":" + os.environ["PATH"]}
    result = subprocess.run(["bash", "-c", script], cwd=ROOT, env=env, capture_output=True, text=True)
    expect(result.stdout == "digest diff\n--tensors\n", result)


@test
def the_examples_of_the_man_page_run(folder):
    page = read(os.path.join(ROOT, "tools", "sexpgpu-checkpoint", "sexpgpu-checkpoint.1")).decode()
    commands = [c.strip().replace("\\-", "-") for c in re.findall(r"\.nf\n\.RS\n(.*?)\.RE", page, re.S)]
    for steps in (2, 4, 6):
        run(folder, "runs/linear", "--steps", steps)
    run(folder, "runs/other", "--steps", 6, "--set", "lr=0.2")
    os.symlink(EXAMPLES, os.path.join(folder, "examples"))
    os.makedirs(os.path.join(folder, "elsewhere"))
    for command in commands:
        env = {**os.environ, "PATH": os.path.join(BUILD, "bin") + ":" + os.environ["PATH"]}
        result = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=env, capture_output=True, text=True)
        allowed = (0, 1) if "diff --json" in command else (0,)
        expect(result.returncode in allowed and not result.stderr, command, result.stdout[:300], result.stderr[:300])
    expect(len(commands) == 7, len(commands))
    expect(sorted(os.listdir(f"{folder}/runs/linear")) == ["step-4", "step-6"])
    expect(len(os.listdir(f"{folder}/elsewhere")) == 1)


main()
