#!/usr/bin/env python3
"""Holds the tree to its own rules: who includes whom, what libraries export and call, sizes of files and
functions, error codes with their tests and their page, names of files. usage: check.py BUILD"""
import os, re, subprocess, sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
build = sys.argv[1]
passed, failed = 0, 0


def check(name, problems):
    global passed, failed
    passed, failed = passed + (not problems), failed + bool(problems)
    for p in problems[:20]:
        print(f"{name}: {p}")


def files(*ends):
    out = subprocess.run(["git", "ls-files"], capture_output=True, text=True)
    names = out.stdout.split("\n") if out.returncode == 0 else \
        [os.path.join(d, f)[2:] for d, _, fs in os.walk(".") for f in fs if not d.startswith(("./build", "./.git"))]
    return [n for n in names if n.endswith(ends) and os.path.exists(n)]


def read(name):
    with open(name, encoding="utf-8", errors="replace") as f:
        return f.read()


# --- the direction of includes ------------------------------------------------------------------------
MAY = {  # folder -> folders whose headers it may include
    "libsexp/base": [],
    "libsexp/read": ["libsexp/base"],
    "libsexp/ir": ["libsexp/base", "kernels"],
    "libsexp/lang": ["libsexp/base", "libsexp/read", "libsexp/ir", "kernels"],
    "libsexp/pass": ["libsexp/base", "libsexp/ir", "kernels"],
    "libsexp/cpu": ["libsexp/base", "libsexp/ir", "libsexp/pass", "libsexp/device", "kernels"],
    "libsexp/device": ["libsexp/base", "libsexp/ir", "libsexp/pass", "libsexp"],
    "libsexp/cuda": ["libsexp/base", "libsexp/ir", "libsexp/pass", "libsexp/device", "kernels", "libsexp"],
    "libsexp/run": ["libsexp/base", "libsexp/read", "libsexp/ir", "libsexp/lang", "libsexp/pass", "libsexp/cpu",
                    "libsexp/device", "kernels", "libsexp"],
    "libsexp": ["libsexp/base", "libsexp/read", "libsexp/ir", "libsexp/lang", "libsexp/pass", "libsexp/cpu",
                "libsexp/device", "libsexp/cuda", "libsexp/run", "kernels"],
    "libckpt": [], "libchoices": [], "kernels": [],
}
problems = []
for name in files(".c", ".h"):
    folder = os.path.dirname(name)
    if folder not in MAY:
        continue
    for quoted in re.findall(r'^#include "([^"]+)"', read(name), re.M):
        target = os.path.dirname(os.path.normpath(os.path.join(folder, quoted)))
        if target != folder and target not in MAY[folder]:
            problems.append(f"{name} includes {quoted}")
check("include direction", problems)
for name in files(".c", ".h"):
    if name.startswith("tools/") and re.search(r'#include "[./]*lib(sexp|ckpt|choices)/(?!sexp\.h|ckpt\.h|choices\.h)', read(name)):
        problems.append(f"{name} includes an internal header of a library")
check("tools use public headers", problems)

# --- what libraries show and call ---------------------------------------------------------------------
BANNED = {"exit", "_exit", "getenv", "secure_getenv", "printf", "puts", "putchar", "system", "strcpy", "strcat",
          "sprintf", "gets", "rand", "srand", "setlocale", "strtok", "signal", "popen", "time", "localtime",
          "exp", "expf", "log", "logf", "pow", "powf", "sin", "sinf", "cos", "cosf", "tanh", "tanhf", "erf", "erff"}
ALLOWED = {"libsexp": set(), "libckpt": set(), "libchoices": set()}
for lib, prefix in (("libsexp", "sexp_"), ("libckpt", "ckpt_"), ("libchoices", "choices_")):
    so = f"{build}/lib/{lib}.so"
    out = subprocess.run(["nm", "-D", "--defined-only", so], capture_output=True, text=True)
    names = [line.split()[-1] for line in out.stdout.splitlines()]
    check(f"{lib} exports", [n for n in names if not n.startswith(prefix)] or ([] if names else ["nothing exported"]))
    header = read(f"{lib}/{prefix[:-1]}.h") + "".join(read(n) for n in files(".h") if n.startswith(f"{lib}/{prefix}"))
    check(f"{lib} declares what it exports", [n for n in names if not re.search(rf"\b{n}\b", header)])
    archive = f"{build}/lib/{lib}.a"
    out = subprocess.run(["nm", "-u", archive], capture_output=True, text=True)
    used = {line.split()[-1].split("@")[0] for line in out.stdout.splitlines() if line.strip().startswith("U ")}
    check(f"{lib} calls nothing banned", sorted((used & BANNED) - ALLOWED[lib]))
    out = subprocess.run(["objdump", "-t", archive], capture_output=True, text=True)
    mutable = re.findall(r"^.{17}.{6}O (\.t?data|\.t?bss|\*COM\*)(?:\.(?!rel\.ro)\S*)?\t\S+ +(?:\.hidden )?(\S+)$", out.stdout, re.M)
    if os.environ.get("QUICK", "") in ("", "tools"):  # sanitizers add their own
        check(f"{lib} keeps no mutable global", [name for _, name in mutable])

# --- sizes and words ----------------------------------------------------------------------------------
sources = files(".c", ".h", ".cu")
check("files have at most 800 lines", [f"{n}: {read(n).count(chr(10))}" for n in sources if read(n).count("\n") > 800])
LONG = {"libsexp/lang/machine.c"}  # the dispatch over instructions, one table-like loop
long = []
for name in (n for n in sources if n.endswith(".c") and n not in LONG):
    begin = None
    for i, line in enumerate(read(name).split("\n"), 1):
        if re.match(r"^[A-Za-z_].*\)\s*(__attribute__.*)?\{$", line):
            begin = i
        if line == "}" and begin:
            if i - begin > 80:
                long.append(f"{name}:{begin}: {i - begin} lines")
            begin = None
check("functions have at most 80 lines", long)
check("headers of the API have at most 400 lines",
      [n for n in ("libsexp/sexp.h", "libckpt/ckpt.h", "libckpt/ckpt_checkpoint.h", "libckpt/ckpt_json.h",
                     "libchoices/choices.h", "libchoices/choices_record.h") if read(n).count("\n") > 400])
undone = re.compile(r"\b(todo|fixme|xxx|hack|not (yet )?implemented|stub|placeholder|for now)\b", re.I)
check("nothing is left undone", [f"{n}: {m.group(0)}" for n in files(".c", ".h", ".sexp", ".sh", ".py", ".def", "Makefile")
                                 if not n.startswith("tests/structure/") for m in [undone.search(read(n))] if m])
check("no type of ours ends in _t", [f"{n}: {m}" for n in sources for m in re.findall(r"^} (\w+_t);", read(n), re.M)])
check("headers guard themselves", [n for n in sources if n.endswith(".h") and "#ifndef" not in read(n)
                                   and not re.search(r"level|impl|template", n)])

# --- error codes ----------------------------------------------------------------------------------------
rows = []
for table in files("errors.def"):
    rows += [(area, number, name, table) for area, number, name in
             re.findall(r'^(?:SX|CKPT|CHOICES)_ERROR\((\w+),\s*"?(\d+)"?,\s*(\w+)', read(table), re.M)]
codes = [f"E-{a}-{n}" for a, n, _, _ in rows]
check("error codes are unique", sorted({c for c in codes if codes.count(c) > 1}))
page = read("docs/errors.md") if os.path.exists("docs/errors.md") else ""
check("docs/errors.md has every code and no other",
      [c for c in codes if f"## {c}" not in page] + [c for c in re.findall(r"^## (E-\S+)", page, re.M) if c not in codes])
tests = "".join(read(n) for n in files(".c", ".py", ".expected", ".sh", ".sexp", ".txt") if n.startswith("tests/") and "/structure/" not in n)
untested = [f"{c} ({name}, {table})" for c, (_, _, name, table) in zip(codes, rows) if c not in tests and f"_E_{name}" not in tests]
check("every error code has a test", untested)

# --- documentation --------------------------------------------------------------------------------------
broken = []
for name in files(".md"):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", read(name)):
        if not target.startswith("http") and not os.path.exists(os.path.join(os.path.dirname(name), target)):
            broken.append(f"{name}: {target}")
check("links in the documentation lead somewhere", broken)

print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
