#!/usr/bin/env python3
"""Every kernel of the examples and of graphs over all operations, as the real NVRTC compiles it for compute_80 and
compute_90: no floating-point atomics, no contraction that the source does not ask for, nothing approximate, no
subnormal flushed, no call, no local memory; by ptxas no spill, with a table of registers.
usage: test_ptx.py BUILD"""
import re, shutil

from harness import *

EMIT = os.path.join(BUILD, "test", "cuda", "emit_ptx")
EXPLAIN = os.path.join(BUILD, "bin", "sexpgpu-explain")
PTXAS = shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas")
MOST_REGISTERS = 128
NAMES = ["linear", "digits", "fashion", "king-james"]
# Kernels that ask for fma: numerics 1 defines linear-scan and products by it.
CONTRACTS = ("linear_scan", "product")


def graphs_of(name):
    if name == "king-james":
        subprocess.run(["sh", os.path.join(EXAMPLES, name, "make-text.sh")], check=True)
    made = subprocess.run([EXPLAIN, "--ir", os.path.join(EXAMPLES, name, f"{name}.sexp")], capture_output=True, text=True,
                          env=environment())
    expect(made.returncode == 0, name, made.stderr[:500])
    return made.stdout


def ptx(architecture, *arguments, graphs=""):
    made = subprocess.run([EMIT, str(architecture), *map(str, arguments)], input=graphs, capture_output=True, text=True)
    expect(made.returncode == 0, made.stdout[-1000:], made.stderr[-1000:])
    return made.stdout


def kernels(text):
    """Name and body of each entry."""
    parts = re.split(r"^\.visible \.entry (\w+)", text, flags=re.M)
    return list(zip(parts[1::2], parts[2::2]))


def problems(text):
    found = []
    for name, body in kernels(text):
        for line in body.splitlines():
            words = re.sub(r"^\s*(@!?%p\d+\s+)?", "", line).split()
            if not words or words[0].startswith(("//", ".")) and words[0] != ".local":
                continue
            op = words[0].rstrip(";")
            if re.match(r"(atom|red)\b", op) and re.search(r"\.(b?f16|f32|f64)", op):
                found.append(f"{name}: a floating-point atomic: {line.strip()}")
            if re.match(r"(fma|mad)\.", op) and re.search(r"\.(b?f16|f32|f64)", op) and not name.startswith(CONTRACTS):
                found.append(f"{name}: a contraction: {line.strip()}")
            if ".approx" in op or ".full" in op or ".ftz" in op:
                found.append(f"{name}: not exactly rounded: {line.strip()}")
            if op == "call" or op.startswith("call."):
                found.append(f"{name}: a call: {line.strip()}")
            if op == ".local" or re.match(r"(ld|st)\.local", op):
                found.append(f"{name}: local memory: {line.strip()}")
    return found


def registers(text, architecture, folder):
    """A line a family of kernels; problems."""
    path = os.path.join(folder, "unit.ptx")
    with open(path, "w", encoding="utf-8") as to:
        to.write(text)
    made = subprocess.run([PTXAS, f"-arch=sm_{architecture}", "-v", path, "-o", "/dev/null"], capture_output=True, text=True)
    expect(made.returncode == 0, made.stderr[:1000])
    families, found = {}, []
    for name, stack, stores, used in re.findall(
            r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores.*?Used (\d+) registers",
            made.stderr, re.S):
        family = families.setdefault(re.sub(r"_[0-9a-f]{16}$", "", name), [0, 0])
        family[0] += 1
        family[1] = max(family[1], int(used))
        if int(stack) or int(stores) or int(used) > MOST_REGISTERS:
            found.append(f"{name}: {stack} bytes of stack, {stores} spilled, {used} registers")
    return families, found


def check(folder, what, make):
    for architecture in (80,) if QUICK else (80, 90):
        text = make(architecture)
        expect(kernels(text), what, "has no kernel")
        found = problems(text)
        if PTXAS:
            families, more = registers(text, architecture, folder)
            found += more
            for family, (n, most) in sorted(families.items()):
                print(f"{what}, sm_{architecture}: {n:4} {family}, at most {most} registers")
        expect(not found, "\n".join(found[:20]))


def example(name):
    def run(folder):
        graphs = graphs_of(name)
        check(folder, name, lambda architecture: ptx(architecture, graphs=graphs))
    run.__name__ = "kernels_of_" + name.replace("-", "_")
    return run


for each in NAMES:
    test(example(each))


@test
def kernels_of_every_operation(folder):
    n = 8 if QUICK else 40
    check(folder, "all operations", lambda architecture: ptx(architecture, "random", 1, n))


@test
def kernels_of_more_than_2_to_the_31_elements(folder):
    size = "[66000 66000]"
    graphs = (f'graph "large"\n%0 = input {{name "x"}} : f32 {size}\n%1 = exp %0 : f32 {size}\n'
              f'%2 = transpose %0 {{perm [1 0]}} : f32 {size}\n%3 = add %1 %2 : f32 {size}\n'
              f'%4 = sum %3 {{axes [0]}} : f32 [66000]\n%5 = sum %2 {{axes [0 1]}} : f32 []\n'
              f'%6 = reverse %0 {{axis 0}} : f32 {size}\n'
              'output "a" %3\noutput "b" %4\noutput "c" %5\noutput "d" %6\noutput "e" %2\n')
    check(folder, "large", lambda architecture: ptx(architecture, graphs=graphs))


@test
def contraction_is_found(folder):
    text = ptx(80, "contracted", graphs=graphs_of("digits"))
    expect(any("a contraction" in one for one in problems(text)), "no contraction is found in a unit compiled with them")


@test
def what_must_not_be_is_found(folder):
    for line, word in (("atom.global.add.f32 %f1, [%rd1], %f2;", "atomic"), ("red.global.add.f64 [%rd1], %fd2;", "atomic"),
                       ("@%p1 fma.rn.f64 %fd1, %fd2, %fd3, %fd4;", "contraction"), ("div.full.f32 %f1, %f2, %f3;", "rounded"),
                       ("sqrt.approx.f32 %f1, %f2;", "rounded"), ("add.rn.ftz.f32 %f1, %f2, %f3;", "rounded"),
                       ("call.uni (retval0), f, (param0);", "call"), (".local .align 4 .b8 depot[16];", "local"),
                       ("st.local.u32 [%rd1], %r1;", "local")):
        found = problems(f".visible .entry rows_00(\n)\n{{\n\t{line}\n}}\n")
        expect(len(found) == 1 and word in found[0], line, found)
    kept = "atom.global.min.u64 %rd1, [%rd2], %rd3;\n\tmad.lo.s32 %r1, %r2, %r3, %r4;\n\tbar.red.popc.u32 %r1, 0, %p1;"
    expect(not problems(f".visible .entry rows_00(\n)\n{{\n\t{kept}\n}}\n"), "an integer instruction is refused")
    expect(not problems(".visible .entry linear_scan_00(\n)\n{\n\tfma.rn.f32 %f1, %f2, %f3, %f4;\n}\n"), "a scan's fma is refused")


if ptx(80).startswith("skipped"):
    print("skipped: NVRTC 13 is not here")
    sys.exit(0)
main()
