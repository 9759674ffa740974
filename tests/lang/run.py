#!/usr/bin/env python3
"""Runs the file-based tests of the language and the examples of docs/language.md.

usage: run.py EVALUATE [--update] [NAME]...

A case is tests/lang/NAME.sexp with what evaluate prints for it in NAME.expected; a comment ";; evaluate: ARGUMENTS" in
its first line gives further arguments. --update rewrites the expectations: review the difference. Every error code of
the language has to be in one of them. In docs/language.md

  ```lisp              is a file, made whole by a small run where it has none
  ```lisp tensor       is a list of expressions of a loss graph; each is printed, in order
  ```lisp error        is a file with an error
  ```text              after one of them is what it prints
"""
import os, re, shlex, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# The language's codes; those of running and of reading data are not.
LANGUAGE = re.compile("E-(READ-00|(EVAL|TYPE|SHAPE|PARAM|GRAD|KNOB)-|RUN-02|DATA-00)")
ELSEWHERE = {"E-GRAD-001"}  # every operation has a rule: tests/op/test_gradients.c takes one away
SMALL_RUN = '\n(defrun example :seed 1 :steps 1 :loss (sum (zeros [2])))\n'


def evaluate(program, file, arguments=(), cwd=HERE):
    result = subprocess.run([program, *arguments, file], cwd=cwd, capture_output=True, timeout=120)
    output = result.stdout.decode("utf-8", "replace")
    if result.returncode or result.stderr:
        output += f"exit {result.returncode}\n" + result.stderr.decode("utf-8", "replace")
    return output


def arguments_of(path):
    with open(path, "rb") as f:
        first = f.readline().decode("utf-8", "replace")
    match = re.match(r";; evaluate: (.*)", first)
    return shlex.split(match.group(1)) if match else []


def difference(name, wanted, got):
    a, b = wanted.split("\n"), got.split("\n")
    i = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    line = lambda lines: lines[i] if i < len(lines) else "(nothing)"
    return f"FAIL {name}, line {i + 1}\n  expected {line(a)}\n  got      {line(b)}"


def run_cases(program, update, only):
    passed, failed = 0, []
    for file in sorted(f for f in os.listdir(HERE) if f.endswith(".sexp")):
        name = file[:-5]
        if only and name not in only:
            continue
        expected = os.path.join(HERE, name + ".expected")
        got = evaluate(program, file, arguments_of(os.path.join(HERE, file)))
        if update:
            with open(expected, "w", encoding="utf-8") as f:
                f.write(got)
        wanted = open(expected, encoding="utf-8").read() if os.path.exists(expected) else ""
        if got == wanted:
            passed += 1
        else:
            failed.append(difference(name, wanted, got))
    return passed, failed


def codes_without_case():
    rows = re.findall(r'^SX_ERROR\((\w+),\s*"(\d+)"', open(f"{ROOT}/libsexp/base/errors.def").read(), re.M)
    seen = "".join(open(os.path.join(HERE, f), encoding="utf-8").read()
                   for f in os.listdir(HERE) if f.endswith(".expected"))
    codes = [f"E-{area}-{number}" for area, number in rows]
    return [c for c in codes if LANGUAGE.match(c) and c not in seen and c not in ELSEWHERE]


def names_without_text():
    """Builtins and functions of the prelude that the reference does not mention."""
    page, lang = open(f"{ROOT}/docs/language.md", encoding="utf-8").read(), f"{ROOT}/libsexp/lang"
    names = []
    for folder, start, pattern in ((lang, "builtins_", r'^ +\{"([^"]+)", -?\d'), (f"{lang}/prelude", "", r"^\(defun (\S+)")):
        for file in sorted(f for f in os.listdir(folder) if f.startswith(start) and f.endswith((".c", ".sexp"))):
            names += re.findall(pattern, open(os.path.join(folder, file), encoding="utf-8").read(), re.M)
    return [n for n in names if not re.search(rf"[`( ]{re.escape(n)}[`) ]", page)]


def blocks_of(text):
    """(line, kind, code, expected or None) of each example."""
    found = re.finditer(r"^```lisp ?(\w*)\n(.*?)^```\n(?:\n?```text\n(.*?)^```\n)?", text, re.M | re.S)
    return [(text.count("\n", 0, m.start()) + 1, m.group(1), m.group(2), m.group(3)) for m in found]


def expressions_of(code):
    """The top-level datums of the code, as texts; it holds no block comments."""
    out, depth, begin, i = [], 0, None, 0
    while i < len(code):
        c = code[i]
        token = re.compile(r'"(?:[^"\\]|\\.)*"|;[^\n]*|\s+|[()\[\]]|[^\s()\[\]";]+', re.S).match(code, i).group(0)
        if begin is None and not token.isspace() and c != ";":
            begin = i
        depth += (c in "([") - (c in ")]") if len(token) == 1 else 0
        i += len(token)
        if begin is not None and depth == 0:
            out.append(code[begin:i])
            begin = None
    return out


def whole(kind, code):
    if kind == "tensor":
        prints = " ".join(f"(print {e})" for e in expressions_of(code))
        return f"(defrun example :seed 1 :steps 1 :loss (begin {prints} 0) :optimizer (sgd :lr 0.1))\n"
    return code if "(defrun " in code or kind == "error" else code + SMALL_RUN


def run_examples(program, only):
    page = os.path.join(ROOT, "docs", "language.md")
    passed, failed = 0, []
    if not os.path.exists(page) or (only and "docs" not in only):
        return passed, failed
    folder = os.path.join(HERE, "docs")
    file = os.path.join(folder, "example.sexp")
    for line, kind, code, expected in blocks_of(open(page, encoding="utf-8").read()):
        with open(file, "w", encoding="utf-8") as f:
            f.write(whole(kind, code))
        got = evaluate(program, "example.sexp", ["--no-warnings"], cwd=folder)
        os.remove(file)
        body, status = got.rsplit("status ", 1) if "status " in got else (got, "none\n")
        name = f"docs/language.md:{line}"
        if status != ("input\n" if kind == "error" else "ok\n"):
            failed.append(f"FAIL {name}: status {status}{body}")
        elif expected is not None and body != expected:
            failed.append(difference(name, expected, body))
        else:
            passed += 1
    return passed, failed


def main():
    program, rest = os.path.abspath(sys.argv[1]), sys.argv[2:]
    update = "--update" in rest
    only = [r for r in rest if r != "--update"]
    passed, failed = run_cases(program, update, only)
    more, bad = run_examples(program, only)
    passed, failed = passed + more, failed + bad
    if not only:
        missing = [f"FAIL no case provokes {c}" for c in codes_without_case()]
        missing += [f"FAIL docs/language.md does not mention {n}" for n in names_without_text()]
        passed, failed = passed + (not missing), failed + missing
    print("\n".join(failed))
    print(f"{passed} passed, {len(failed)} failed")
    sys.exit(bool(failed))


main()
