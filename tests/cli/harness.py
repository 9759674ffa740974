"""What the tests of the tools share: running a tool, and counting."""
import json, os, subprocess, sys, tempfile, traceback

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(ROOT, "build")
RUN = os.path.join(BUILD, "bin", "sexpgpu-run")
EXAMPLES = os.path.join(ROOT, "examples")
QUICK = bool(os.environ.get("QUICK"))
TESTS = []


def test(function):
    TESTS.append(function)
    return function


def environment(extra=None):
    """This process's environment without what the tools read, and with extra."""
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("SEXPGPU_", "AWS_", "SYVAIN_")) and not name.lower().endswith("_proxy")}
    return {**clean, **(extra or {})}


def tool(*arguments, env=None, timeout=600, stdin=None, cwd=None):
    """Runs sexpgpu-run; the environment holds none of its variables but those given."""
    return subprocess.run([RUN, *map(str, arguments)], capture_output=True, text=True, timeout=timeout,
                          env=environment(env), input=stdin, cwd=cwd)


def expect(condition, *words):
    if not condition:
        raise AssertionError(" ".join(str(w) for w in words))


def expect_failure(result, status, code, *fragments):
    text = result.stderr
    expect(result.returncode == status, f"exit {result.returncode}, expected {status}:", text[:500])
    expect(code in text, f"{code} not in:", text[:500])
    for fragment in fragments:
        expect(fragment in text, f"{fragment!r} not in:", text[:500])


def schema_errors(name, objects):
    import jsonschema
    with open(os.path.join(ROOT, "docs", "schema", name), encoding="utf-8") as f:
        validator = jsonschema.Draft202012Validator(json.load(f))
    return [f"{name}: {e.message[:200]}" for o in objects for e in validator.iter_errors(o)]


def records(text):
    return [json.loads(line) for line in text.splitlines()]


def steady(text):
    """A metrics stream without its volatile records."""
    return "\n".join(line for line in text.splitlines() if json.loads(line)["record"] != "timing")


def simulator(card="a100"):
    """The start of a command that runs on the simulated CUDA device; None where there is none."""
    start = [os.path.join(ROOT, "tests", "cudasim", "run"), "--build", BUILD, "--card", card, "--"]
    return start if subprocess.run([*start, "true"], capture_output=True).returncode != 77 else None


def is_sanitized():
    """Whether the build is AddressSanitizer's or ThreadSanitizer's: it needs an address space of its own, and its libraries their program."""
    so = os.path.join(BUILD, "lib", "libchoices.so")
    symbols = subprocess.run(["nm", "-D", so], capture_output=True).stdout
    return b"__asan_init" in symbols or b"__tsan_init" in symbols


def main():
    failed = 0
    for function in TESTS:
        try:
            with tempfile.TemporaryDirectory() as folder:
                function(folder)
        except Exception:
            failed += 1
            print(f"FAIL {function.__name__}")
            traceback.print_exc(file=sys.stdout)
    print(f"{len(TESTS) - failed} passed, {failed} failed")
    sys.exit(failed > 0)
