#!/usr/bin/env python3
"""Whole training steps beside PyTorch: the same model, weights, batches and optimizer, in turn, 1 thread and all of them.

    bench_steps.py BUILD [ROUNDS [WORKLOAD ...]]     by default 3 rounds of mlp cnn char gpt

Ours is timed by the arrival of its loss records; PyTorch (/usr/bin/python3's, where it is installed) by its own loop, as
the best of its settings: with and without foreach optimizers, and for convolutions channels-last too. Printed are
medians of the better round, the ratio, peak memory, the losses after the steps, and the share of the machine's fma peak
where bench_gemm's figure is given in PEAK_GFLOPS.
"""
import json, os, resource, statistics, subprocess, sys, tempfile, time

import numpy

STEPS, WARM = {"mlp": 120, "cnn": 14, "char": 18, "gpt": 8}, 3
BATCHES = 4
TRANSFORMERS = {  # width, heads, depth, context, vocabulary, batch, learning rate
    "char": (128, 4, 4, 128, 65, 16, 0.001), "gpt": (384, 6, 6, 256, 4096, 4, 0.0003)}
CONVOLUTIONS = [(3, 64, 1), (64, 128, 2), (128, 256, 2)]  # channels in, out, stride
LAYERS = [(784, 512), (512, 512), (512, 10)]

COMMON = """(defknob steps 20)
(defdata batches :source (arrays "data.safetensors") :order sequential)
(defun at (name shape) (param name shape :load (weights "weights.safetensors")))
(defun linear (x name from to) (scope name (+ (matmul x (transpose (at "weight" [to from]) [1 0])) (at "bias" [to]))))
"""
EXPERIMENTS = {"mlp": """(defrun bench :seed 1 :steps steps :data batches :batch 128
  :loss (let ((h (relu (linear x "first" 784 512))) (h (relu (linear h "second" 512 512))))
          (cross-entropy (linear h "last" 512 10) y))
  :optimizer (adam :lr 1e-3 :beta1 0.9 :beta2 0.999 :eps 1e-8))
""", "cnn": """(defun window (x name from to stride)
  (scope name (relu (+ (conv2d x (at "weight" [to 3 3 from]) :stride stride :padding 1) (at "bias" [to])))))
(defrun bench :seed 1 :steps steps :data batches :batch 64
  :loss (let ((h (window x "first" 3 64 1)) (h (window h "second" 64 128 2)) (h (window h "third" 128 256 2)))
          (cross-entropy (linear (mean h :axis [1 2]) "last" 256 10) y))
  :optimizer (momentum :lr 0.05 :momentum 0.9))
""", "transformer": """(defknob width %d) (defknob heads %d) (defknob depth %d) (defknob context %d) (defknob vocabulary %d)
(defun norm (x name) (scope name (layer-norm x (at "weight" [width]) (at "bias" [width]) :eps 1e-5)))
(defun split-heads (x i)
  (transpose (reshape (slice x 2 (* i width) (* (+ i 1) width)) [(dim x 0) context heads (div width heads)]) [0 2 1 3]))
(defun mix (x)
  (let ((all (linear x "mix" width (* 3 width)))
        (y (attention (split-heads all 0) (split-heads all 1) (split-heads all 2) :causal true)))
    (linear (reshape (transpose y [0 2 1 3]) (shape-of x)) "mixed" width width)))
(defun widen (x) (linear (gelu (linear x "wide" width (* 4 width)) :approximate "tanh") "narrow" (* 4 width) width))
(defun layer (x i)
  (scope "layers" (scope i
    (let ((x (+ x (mix (norm x "norm1")))))
      (+ x (widen (norm x "norm2")))))))
(defrun bench :seed 1 :steps steps :data batches :batch %d
  :loss (let ((tokens (at "tokens" [vocabulary width]))
              (h (fold layer (+ (gather tokens x) (at "places" [context width])) (range depth))))
          (cross-entropy (matmul (norm h "norm") (transpose tokens [1 0])) y))
  :optimizer (adamw :lr %g :beta1 0.9 :beta2 0.999 :eps 1e-8 :weight-decay 0.01))
"""}


def weights_of(name):
    random = numpy.random.default_rng(7)

    def filled(*shape, scale=None):
        return (random.standard_normal(shape) * (scale or 0.02)).astype(numpy.float32)

    out = {}
    if name == "mlp":
        for label, (a, b) in zip(("first", "second", "last"), LAYERS):
            out |= {f"{label}/weight": filled(b, a, scale=a**-0.5), f"{label}/bias": filled(b)}
    elif name == "cnn":
        for label, (a, b, _) in zip(("first", "second", "third"), CONVOLUTIONS):
            out |= {f"{label}/weight": filled(b, 3, 3, a, scale=(9 * a)**-0.5), f"{label}/bias": filled(b)}
        out |= {"last/weight": filled(10, 256, scale=1 / 16), "last/bias": filled(10)}
    else:
        width, _, depth, context, vocabulary, _, _ = TRANSFORMERS[name]
        out |= {"tokens": filled(vocabulary, width), "places": filled(context, width)}
        norms = ["norm"] + [f"layers/{i}/norm{k}" for i in range(depth) for k in (1, 2)]
        for label in norms:
            out |= {f"{label}/weight": 1 + filled(width), f"{label}/bias": filled(width)}
        for i in range(depth):
            for label, a, b in (("mix", 1, 3), ("mixed", 1, 1), ("wide", 1, 4), ("narrow", 4, 1)):
                out |= {f"layers/{i}/{label}/weight": filled(b * width, a * width),
                        f"layers/{i}/{label}/bias": filled(b * width)}
    return out


def data_of(name):
    random = numpy.random.default_rng(11)
    if name == "mlp":
        return random.random((BATCHES * 128, 784), numpy.float32), random.integers(0, 10, BATCHES * 128, numpy.int32)
    if name == "cnn":
        return (random.standard_normal((BATCHES * 64, 32, 32, 3)).astype(numpy.float32),
                random.integers(0, 10, BATCHES * 64, numpy.int32))
    _, _, _, context, vocabulary, batch, _ = TRANSFORMERS[name]
    ids = random.integers(0, vocabulary, (BATCHES * batch, context + 1), numpy.int32)
    return ids[:, :-1].copy(), ids[:, 1:].copy()


def write_safetensors(path, arrays):
    header, offset = {}, 0
    for name in sorted(arrays):
        array = arrays[name]
        header[name] = {"dtype": {"float32": "F32", "int32": "I32"}[str(array.dtype)], "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for name in sorted(arrays):
            f.write(arrays[name].tobytes())


def write_experiment(name, folder):
    x, y = data_of(name)
    write_safetensors(os.path.join(folder, "data.safetensors"), {"x": x, "y": y})
    write_safetensors(os.path.join(folder, "weights.safetensors"), weights_of(name))
    text = EXPERIMENTS.get(name) or EXPERIMENTS["transformer"] % TRANSFORMERS[name]
    with open(os.path.join(folder, "exp.sexp"), "w", encoding="utf-8") as f:
        f.write(COMMON + text)


# ---- ours ------------------------------------------------------------------------------------------------

def ours(build, folder, name, threads):
    """Median milliseconds a step, peak memory in MiB, last loss."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SEXPGPU_")}
    command = [os.path.join(build, "bin", "sexpgpu-run"), os.path.join(folder, "exp.sexp"), "--quiet", "--metrics", "stdout",
               "--threads", str(threads), "--set", f"steps={STEPS[name]}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=clean)
    times, loss = [], None
    for line in process.stdout:
        now, record = time.perf_counter(), json.loads(line)
        if record.get("name") == "train/loss":
            times.append(now)
            loss = record["value"]
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status or len(times) != STEPS[name]:
        sys.exit(f"{name}: the run failed")
    steps = [b - a for a, b in zip(times, times[1:])][WARM:]
    return statistics.median(steps) * 1e3, usage.ru_maxrss / 1024, loss


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


def best_peer(name, threads):
    best = None
    for foreach in (0, 1):
        for channels_last in (0, 1) if name == "cnn" else (0,):
            command = ["/usr/bin/python3", __file__, "--peer", name, str(threads), str(foreach), str(channels_last)]
            out = subprocess.run(command, capture_output=True, text=True,
                                 env={**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)})
            if out.returncode:
                return None
            result = json.loads(out.stdout.splitlines()[-1])
            best = result if best is None or result[0] < best[0] else best
            time.sleep(0.2)
    return best


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
                    mine.append(ours(build, folder, name, threads))
                    theirs.append(best_peer(name, threads) if has_peer else None)
                a = min(mine)
                line = f"{name:5} {threads} thread{'s' if threads > 1 else ' '} {a[0]:8.2f} ms {a[1]:6.0f} MiB  {a[2]:.5f}"
                if theirs[0]:
                    b = min(theirs)
                    line += f"   PyTorch {b[0]:8.2f} ms {b[1]:6.0f} MiB  {b[2]:.5f}   {b[0] / a[0]:5.2f} times as fast"
                print(line, flush=True)


if sys.argv[1] == "--peer":
    peer(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
else:
    main()
