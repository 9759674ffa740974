#!/usr/bin/env python3
"""Whole training steps beside PyTorch: the same model, weights, batches and optimizer, in turn, 1 thread and all of them.

    bench_steps.py BUILD [ROUNDS [WORKLOAD ...]]     by default 3 rounds of mlp cnn char gpt

Ours is timed by the arrival of its loss records; PyTorch (/usr/bin/python3's, where it is installed) by its own loop, as
the best of its settings: each BLAS that is installed (OpenBLAS with POSIX threads and with OpenMP, BLIS), tcmalloc where it
is, with and without foreach optimizers, for convolutions channels-last too. Printed are medians of the better round, the
ratio, peak memory, the losses after the steps, and PyTorch's setting. After each run the machine rests half as long.
"""
import json, os, resource, statistics, subprocess, sys, sysconfig, tempfile, time

from workloads import BATCHES, CONVOLUTIONS, TRANSFORMERS, data_of, weights_of, write_experiment

STEPS, WARM = {"mlp": 120, "cnn": 14, "char": 18, "gpt": 8}, 3
LIBRARIES = "/usr/lib/" + (sysconfig.get_config_var("MULTIARCH") or "")

# ---- ours ------------------------------------------------------------------------------------------------

def peak_of(pid):
    """MiB. What wait4 tells counts what the parent held when it forked."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) / 1024


def ours(build, folder, name, threads):
    """Median milliseconds a step, peak memory in MiB before the last step, last loss."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SEXPGPU_")}
    command = [os.path.join(build, "bin", "sexpgpu-run"), os.path.join(folder, "exp.sexp"), "--quiet", "--metrics", "stdout",
               "--threads", str(threads), "--set", f"steps={STEPS[name]}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=clean)
    times, loss, peak = [], None, 0
    for line in process.stdout:
        now, record = time.perf_counter(), json.loads(line)
        if record.get("name") == "train/loss":
            times.append(now)
            loss = record["value"]
            if len(times) == STEPS[name] - 1:
                peak = peak_of(process.pid)
    if process.wait() or len(times) != STEPS[name]:
        sys.exit(f"{name}: the run failed")
    steps = [b - a for a, b in zip(times, times[1:])][WARM:]
    return statistics.median(steps) * 1e3, peak, loss


# ---- PyTorch's -------------------------------------------------------------------------------------------

def peer_model(torch, name):
    F = torch.nn.functional
    p = {k: torch.from_numpy(v.copy()).requires_grad_() for k, v in weights_of(name).items()}

    def linear(x, label):
        return F.linear(x, p[f"{label}/weight"], p[f"{label}/bias"])

    def norm(x, label):
        return F.layer_norm(x, x.shape[-1:], p[f"{label}/weight"], p[f"{label}/bias"], 1e-5)

    def mlp(x):
        return linear(F.relu(linear(F.relu(linear(x, "first")), "second")), "last")

    def cnn(x):
        for label, (_, _, stride) in zip(("first", "second", "third"), CONVOLUTIONS):
            x = F.relu(F.conv2d(x, p[f"{label}/weight"], p[f"{label}/bias"], stride=stride, padding=1))
        return linear(x.mean((2, 3)), "last")

    def transformer(x):
        width, heads, depth, context, _, _, _ = TRANSFORMERS[name]
        mask = torch.triu(torch.full((context, context), float("-inf")), 1)
        h = F.embedding(x, p["tokens"]) + p["places"]
        for i in range(depth):
            at = f"layers/{i}/"
            q, k, v = (t.unflatten(-1, (heads, width // heads)).transpose(1, 2)
                       for t in linear(norm(h, at + "norm1"), at + "mix").split(width, -1))
            mixed = torch.softmax(q @ k.transpose(-1, -2) * (width // heads)**-0.5 + mask, -1) @ v
            h = h + linear(mixed.transpose(1, 2).flatten(2), at + "mixed")
            h = h + linear(F.gelu(linear(norm(h, at + "norm2"), at + "wide"), approximate="tanh"), at + "narrow")
        return F.linear(norm(h, "norm"), p["tokens"])

    return p, {"mlp": mlp, "cnn": cnn}.get(name, transformer)


def peer(name, threads, foreach, channels_last):
    """Runs in a process of its own; prints [milliseconds, MiB, loss]."""
    import torch
    torch.set_num_threads(threads)
    x, y = (torch.from_numpy(a) for a in data_of(name))
    y = y.long()
    p, model = peer_model(torch, name)
    if name == "cnn":
        x = x.permute(0, 3, 1, 2)
        layout = torch.channels_last if channels_last else torch.contiguous_format
        x = x.contiguous(memory_format=layout)
        for label in ("first", "second", "third"):
            w = p[f"{label}/weight"].detach().permute(0, 3, 1, 2).contiguous(memory_format=layout)
            p[f"{label}/weight"] = w.requires_grad_()
    optim, many = torch.optim, {"foreach": True} if foreach else {}
    if name == "mlp":
        optimizer = optim.Adam(p.values(), lr=1e-3, **many)
    elif name == "cnn":
        optimizer = optim.SGD(p.values(), lr=0.05, momentum=0.9, **many)
    else:
        optimizer = optim.AdamW(p.values(), lr=TRANSFORMERS[name][6], weight_decay=0.01, **many)
    batch = len(y) // BATCHES
    times = []
    for i in range(STEPS[name]):
        begin, at = time.perf_counter(), slice(i % BATCHES * batch, (i % BATCHES + 1) * batch)
        out = model(x[at])
        loss = torch.nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]), y[at].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        value = loss.item()
        times.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([statistics.median(times[WARM + 1:]) * 1e3, peak, value]))


def settings_of(name):
    """Label, environment, foreach, channels-last of each setting that this machine has."""
    blas = [b for b in ("openblas-pthread", "openblas-openmp", "blis-openmp") if os.path.isdir(f"{LIBRARIES}/{b}")]
    tcmalloc = f"{LIBRARIES}/libtcmalloc_minimal.so.4"
    preload = {"LD_PRELOAD": tcmalloc} if os.path.exists(tcmalloc) else {}
    settings = [("as installed", {}, 0, 0)]
    for library in blas:
        env = {"LD_LIBRARY_PATH": f"{LIBRARIES}/{library}", **preload}
        label = library + (", tcmalloc" if preload else "")
        settings.append((label, env, 0, 0))
        if library == "openblas-openmp":
            settings.append((label + ", foreach", env, 1, 0))
            if name == "cnn":
                settings.append((label + ", channels-last", env, 0, 1))
    return settings


def best_peer(name, threads):
    """[milliseconds, MiB, loss, setting] of the quickest."""
    best = None
    for label, env, foreach, channels_last in settings_of(name):
        command = ["/usr/bin/python3", __file__, "--peer", name, str(threads), str(foreach), str(channels_last)]
        count = {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "OPENBLAS", "BLIS")}
        begin = time.perf_counter()
        out = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **count, **env})
        if out.returncode:
            sys.exit(f"PyTorch, {label}: {out.stderr[-300:]}")
        result = json.loads(out.stdout.splitlines()[-1]) + [label]
        best = result if best is None or result[0] < best[0] else best
        rest(begin)
    return best


def rest(begin):
    """A machine of few processors that works all the time is slowed down: half as long as the work took."""
    time.sleep((time.perf_counter() - begin) / 2)


def main():
    build, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    names = sys.argv[3:] or list(STEPS)
    has_peer = not subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True).returncode
    print("milliseconds a step, peak MiB, loss at the end" + ("" if has_peer else "; PyTorch is not installed"))
    for name in names:
        with tempfile.TemporaryDirectory(prefix="bench-steps-") as folder:
            write_experiment(name, folder)
            for threads in sorted({1, len(os.sched_getaffinity(0))}):
                mine, theirs = [], []
                for _ in range(rounds):
                    begin = time.perf_counter()
                    mine.append(ours(build, folder, name, threads))
                    rest(begin)
                    theirs.append(best_peer(name, threads) if has_peer else None)
                a = min(mine)
                line = f"{name:5} {threads} thread{'s' if threads > 1 else ' '} {a[0]:8.2f} ms {a[1]:6.0f} MiB  {a[2]:.5f}"
                if theirs[0]:
                    b = min(theirs)
                    line += f"   PyTorch {b[0]:8.2f} ms {b[1]:6.0f} MiB  {b[2]:.5f}   {b[0] / a[0]:5.2f} times as fast  ({b[3]})"
                print(line, flush=True)


if sys.argv[1] == "--peer":
    peer(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
else:
    main()
