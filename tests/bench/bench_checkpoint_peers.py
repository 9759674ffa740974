#!/usr/bin/env python3
"""Checkpoints beside those of PyTorch and of the safetensors library: the same bytes of f32 tensors, each file fsynced,
in turn, medians of rounds; and `sexpgpu-checkpoint diff` beside reading, with its peak of memory. What is not installed
is said and left out: python3-torch (Debian), safetensors (PyPI).

    bench_checkpoint_peers.py BUILD [ROUNDS [MB]]    by default 3 rounds, 500 MB, in $TMPDIR or /tmp
"""
import os, re, shutil, statistics, subprocess, sys, tempfile, time

import numpy

BUILD = sys.argv[1]
ROUNDS, MB = int(sys.argv[2]) if len(sys.argv) > 2 else 3, int(sys.argv[3]) if len(sys.argv) > 3 else 500
TENSORS = 8


def arrays():
    n = MB * 1000000 // TENSORS // 4
    values = (numpy.arange(n, dtype=numpy.uint64) * 2654435761 % 1000003).astype(numpy.float32) / 1000
    return {f"layer{i}/w": values.copy() for i in range(TENSORS)}


def sync(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def touch(tensors):
    """Reads every byte, as a run that takes them would."""
    return sum(float(numpy.asarray(t).sum()) for t in tensors.values())


def peers(folder, tensors):
    """name -> function, for each library that is here."""
    works = {}
    try:
        import torch
        torch.set_num_threads(1)
        state, path = {k: torch.from_numpy(v) for k, v in tensors.items()}, os.path.join(folder, "t.pt")

        def save():
            with open(path, "wb") as f:
                torch.save(state, f)
                f.flush()
                os.fsync(f.fileno())

        works[f"torch.save, fsync ({torch.__version__})"] = save
        works["torch.load"] = lambda: touch({k: v.numpy() for k, v in torch.load(path).items()})
    except ImportError:
        print("PyTorch is not installed (Debian: python3-torch): not measured")
    try:
        import safetensors, safetensors.numpy
        file = os.path.join(folder, "t.safetensors")

        def write():
            safetensors.numpy.save_file(tensors, file)
            sync(file)

        works[f"safetensors save_file, fsync ({safetensors.__version__})"] = write
        works["safetensors load_file"] = lambda: touch(safetensors.numpy.load_file(file))
    except ImportError:
        print("the safetensors library is not installed (PyPI: safetensors): not measured")
    return works


def ours(folder):
    """Medians of the C benchmark in the same place: name -> seconds."""
    result = subprocess.run([os.path.join(BUILD, "test", "bench", "bench_checkpoint"), folder, str(MB)], capture_output=True,
                            text=True, check=True)
    return {m.group(1).strip(): float(m.group(2)) for m in re.finditer(r"^(\S.*?) +([\d.]+) s ", result.stdout, re.M)}


def compare(works, own):
    taken = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            begin = time.perf_counter()
            work()
            taken[name].append(time.perf_counter() - begin)
    print(f"checkpoint write: {own['checkpoint write']:.3f} s; verify (reads, hashes twice): {own['verify']:.3f} s; "
          f"sha256: {own['sha256']:.3f} s; raw write and fsync: {own['raw write']:.3f} s")
    for name, seconds in taken.items():
        median, mine = statistics.median(seconds), own["checkpoint write" if "fsync" in name else "verify"]
        print(f"{name:44s} {median:7.3f} s {MB / median:7.0f} MB/s   ours takes {mine / median:.2f} times that")


def write_checkpoints(folder):
    """Two checkpoints of MB through sexpgpu-run that differ in every element by little, and a copy of the second that
    differs from it in one."""
    rows = MB * 1000000 // 8 // 1024
    path = os.path.join(folder, "exp.sexp")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f'(defrun r :seed 1 :steps 2 :checkpoint-every 1 :loss (let ((w (param "w" [{rows} 1024] :init (glorot shape)))) '
                "(mean (* w w))) :optimizer (momentum :lr 0.001 :momentum 0.9))\n")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SEXPGPU_")}
    subprocess.run([os.path.join(BUILD, "bin", "sexpgpu-run"), path, "--quiet", "--checkpoint-dir", folder + "/out"], check=True,
                   env=clean, stderr=subprocess.DEVNULL)
    steps = [os.path.join(folder, "out", name) for name in ("step-1", "step-2")]
    copy = os.path.join(folder, "copy", "step-2")
    shutil.copytree(steps[1], copy)
    with open(os.path.join(copy, "parameters.safetensors"), "r+b") as f:
        f.seek(-4, os.SEEK_END)
        f.write(b"\0\0\0\0")
    return [("every element differs", steps), ("one element differs", [steps[1], copy])]


def measured(command):
    """Seconds of a command, and the peak of its memory in MiB (VmHWM, looked at until it ends)."""
    begin, peak = time.perf_counter(), 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        with open(f"/proc/{process.pid}/status", encoding="utf-8") as f:
            found = re.search(r"VmHWM:\s+(\d+) kB", f.read())
        peak = int(found.group(1)) / 1024 if found else peak
        time.sleep(0.002)
    return time.perf_counter() - begin, peak


def diff(folder):
    for what, steps in write_checkpoints(folder):
        files = [os.path.join(s, n) for s in steps for n in ("parameters.safetensors", "states.safetensors")]
        reads, diffs, peak = [], [], 0
        subprocess.run(["cat", *files], stdout=subprocess.DEVNULL, check=True)  # all of it in the page cache
        for _ in range(max(ROUNDS, 5)):
            reads.append(measured(["cat", *files])[0])
            seconds, memory = measured([os.path.join(BUILD, "bin", "sexpgpu-checkpoint"), "diff", *steps])
            diffs.append(seconds)
            peak = max(peak, memory)
        a, b = statistics.median(reads), statistics.median(diffs)
        size = sum(os.path.getsize(f) for f in files) / 1e6
        print(f"diff of {size:.0f} MB in two, {what}, page cache: {b:.3f} s, {b / a:.2f} times cat ({a:.3f} s); peak of memory "
              f"{peak:.1f} MiB")


def main():
    with tempfile.TemporaryDirectory(prefix="bench-peers-") as folder:
        compare(peers(folder, arrays()), ours(folder))
    with tempfile.TemporaryDirectory(prefix="bench-peers-") as folder:
        diff(folder)


main()
