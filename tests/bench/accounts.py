"""Runs of sexpgpu-run with an account of a step: account_tasks and account_threads, which `make bench` builds and
`make all` does not."""
import json, os, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
LIBRARIES = ("libsexp.a", "libckpt.a", "libchoices.a", "libcommon.a")


def program_of(build, name):
    """The program's path. Ends where it is not there, or older than a library that it is linked with: it would measure
    other code than what was built last."""
    path = os.path.join(build, "test", "bench", name)
    target = os.path.relpath(os.path.realpath(path), ROOT)
    found = os.path.getmtime(path) if os.path.exists(path) else None
    libraries = [os.path.join(build, "lib", library) for library in LIBRARIES]
    newer = [library for library in libraries if os.path.exists(library) and os.path.getmtime(library) > (found or 0)]
    if found is None or newer:
        why = f"is older than {newer[0]}" if found is not None else "is not there"
        sys.exit(f"{path} {why}; it is built by: make {target}")
    return path


def account(build, name, folder, threads, steps):
    """What the program tells of a run of folder/exp.sexp, as an object."""
    out = os.path.join(folder, "account.json")
    env = {k: v for k, v in os.environ.items() if not k.startswith("SEXPGPU_")}
    env[name.upper()] = out
    subprocess.run([program_of(build, name), os.path.join(folder, "exp.sexp"), "--quiet", "--threads", str(threads),
                    "--set", f"steps={steps}"], check=True, stdout=subprocess.DEVNULL, env=env)
    with open(out) as text:
        return json.load(text)
