#!/usr/bin/env python3
"""sexpgpu NAME becomes sexpgpu-NAME: from its own directory, else from PATH; arguments, exit status, signals as they are."""
import os, shutil, signal, subprocess, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *

SEXPGPU = os.path.join(BUILD, "bin", "sexpgpu")
TOOLS = ["sexpgpu-run", "sexpgpu-evaluate", "sexpgpu-checkpoint", "sexpgpu-doctor", "sexpgpu-explain"]


def call(*arguments, program=SEXPGPU, path=None, **options):
    env = {"PATH": path or "/usr/bin:/bin"}
    return subprocess.run([program, *arguments], capture_output=True, text=True, env=env, **options)


def script(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write("#!/bin/sh\n" + text + "\n")
    os.chmod(path, 0o755)
    return path


@test
def becomes_the_tool_beside_it(folder):
    for name in TOOLS:
        result = call(name[len("sexpgpu-"):], "--version")
        expect(result.returncode == 0 and result.stdout.startswith(name + " "), result.stdout, result.stderr)
    expect_failure(call("run", "--no-such"), 2, "E-ENV-002", "--no-such")
    expect_failure(call("evaluate", f"{folder}/step-3"), 4, "E-CKPT-030")
    shutil.copy(SEXPGPU, f"{folder}/sexpgpu")
    script(f"{folder}/sexpgpu-mine", 'printf "own %s\\n" "$0"')
    script(f"{folder}/path/sexpgpu-mine", "echo from PATH")
    script(f"{folder}/path/sexpgpu-other", "echo from PATH")
    expect(call("mine", program=f"{folder}/sexpgpu", path=f"{folder}/path").stdout.startswith("own "))
    expect(call("other", program=f"{folder}/sexpgpu", path=f"/nowhere:{folder}/path").stdout == "from PATH\n")
    os.symlink(f"{folder}/sexpgpu", f"{folder}/path/sexpgpu")
    expect(call("mine", program=f"{folder}/path/sexpgpu", path="/bin").stdout.startswith("own "))


@test
def arguments_and_endings_are_the_tools(folder):
    show = script(f"{folder}/sexpgpu-show", 'for x; do printf "[%s]" "$x"; done; cat; exit 7')
    result = call("show", "", "a b", "--", "-x", "--help", "é\n", path=folder + ":/usr/bin:/bin", input="standard input")
    expect(result.stdout == "[][a b][--][-x][--help][é\n]standard input" and result.returncode == 7, result)
    script(f"{folder}/sexpgpu-end", "kill -TERM $$")
    expect(call("end", path=folder + ":/usr/bin:/bin").returncode == -signal.SIGTERM)
    os.chmod(show, 0o644)
    expect_failure(call("show", path=folder), 2, "E-ENV-011", 'there is no tool "show"')
    with open(f"{folder}/sexpgpu-bad", "w") as f:
        f.write("#!/no/such/interpreter\n")
    os.chmod(f"{folder}/sexpgpu-bad", 0o755)
    expect_failure(call("bad", path=folder), 2, "E-ENV-011", "cannot be started: No such file")


@test
def lists_the_tools(folder):
    script(f"{folder}/sexpgpu-zeta", "true"), script(f"{folder}/sexpgpu-alpha", "true"), script(f"{folder}/sexpgpu-NO", "true")
    with open(f"{folder}/sexpgpu-text", "w") as f:
        f.write("no program")
    results = [call(*arguments, path=folder) for arguments in ((), ("--help",), ("help",))]
    expect(all(r.returncode == 0 and r.stdout == results[0].stdout for r in results), results)
    lines = results[0].stdout.splitlines()
    for name in TOOLS:
        expect(any(line.startswith(f"* {name[8:]} ") and len(line) > 30 for line in lines), name, lines)
    words = [line.split()[1] for line in lines if line.startswith("* ") and "found" not in line]
    expect(words[-2:] == ["alpha", "zeta"] and "text" not in words and "NO" not in words, words)
    shutil.copy(SEXPGPU, f"{folder}/sexpgpu")
    alone = call(program=f"{folder}/sexpgpu", path="/nowhere").stdout
    expect("  run " in alone and "* run" not in alone, alone)
    expect(call("--version").stdout.startswith("sexpgpu 0."), call("--version").stdout)


@test
def names_that_are_no_tool(folder):
    for name, words in (("evalute", "did you mean evaluate?"), ("runn", "did you mean run?"), ("check", "did you mean checkpoint?"),
                        ("quxquxqux", 'there is no tool "quxquxqux"\n'), ("../bin/sexpgpu-run", "there is no tool"), ("", "there is no tool"),
                        ("x" * 300, "there is no tool"), ("RUN", "there is no tool")):
        expect_failure(call(name), 2, "E-ENV-011", words)
        expect(call(name).stdout == "")
    expect_failure(call("--verison"), 2, "E-ENV-002", "unknown option --verison")
    shutil.copy(SEXPGPU, f"{folder}/sexpgpu")
    expect_failure(call("run", program=f"{folder}/sexpgpu", path="/nowhere"), 2, "E-ENV-011", f"sexpgpu-run is neither in {folder} nor in PATH")
    with open("/dev/full", "w") as full:
        result = subprocess.run([SEXPGPU], stdout=full, stderr=subprocess.PIPE, text=True)
    expect_failure(result, 4, "E-ENV-012")


@test
def shows_manuals(folder):
    script(f"{folder}/man", 'echo "man $*"')
    expect(call("help", "run", path=folder).stdout == "man sexpgpu-run\n")
    expect(call("help", "sexpgpu", path=folder).stdout == "man sexpgpu\n")
    expect_failure(call("help", "rum", path=folder), 2, "E-ENV-011", "did you mean run?")
    expect(call("help", "run", path="/nowhere").stdout.startswith("usage: sexpgpu-run"))
    root = f"{folder}/root"
    for name in ["sexpgpu", *TOOLS]:
        os.makedirs(f"{root}/bin", exist_ok=True), os.makedirs(f"{root}/share/man/man1", exist_ok=True)
        shutil.copy(os.path.join(BUILD, "bin", name), f"{root}/bin/{name}")
        page = os.path.join(ROOT, "tools", name, name + ".1")
        shutil.copy(page, f"{root}/share/man/man1/")
        shown = call("help", name[8:] or "sexpgpu", program=f"{root}/bin/sexpgpu", path=folder).stdout
        expect(shown == f"man {root}/bin/../share/man/man1/{name}.1\n", shown)


@test
def every_option_is_in_its_manual_and_completed(folder):
    for name in ("sexpgpu-run", "sexpgpu-evaluate", "sexpgpu-doctor", "sexpgpu-explain"):
        with open(os.path.join(ROOT, "tools", name, name + ".1"), encoding="utf-8") as f:
            manual = f.read().replace("\\-", "-")
        options = [w.strip(",") for line in call(name[8:], "--help").stdout.splitlines() for w in line.split() if w.startswith("--")]
        expect(options, name)
        for option in options:
            expect(option in manual, name, option)
    bash = "\n".join(f"source {ROOT}/tools/{t}/completion.bash" for t in ("sexpgpu", "sexpgpu-evaluate", "sexpgpu-checkpoint"))

    def complete(*words):
        line = f'{bash}\nCOMP_WORDS=("$@"); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _sexpgpu; printf "%s\\n" "${{COMPREPLY[@]}}"'
        return call("-c", line, "bash", "sexpgpu", *words, program="/bin/bash", path=f"{BUILD}/bin:/usr/bin:/bin").stdout.split()

    expect({"run", "evaluate", "checkpoint", "help"} <= set(complete("")), complete(""))
    expect(complete("eva") == ["evaluate"] and complete("help", "che") == ["checkpoint"], complete("eva"), complete("help", "che"))
    expect(complete("evaluate", "--wa") == ["--watch"] and complete("evaluate", "--metrics", "std") == ["stdout"])
    expect(complete("checkpoint", "ver") == ["verify"], complete("checkpoint", "ver"))


main()
