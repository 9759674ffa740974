#!/usr/bin/env python3
"""Every function of the prelude against its plain definition in binary64, values and gradients (by central
differences), optimizers over several steps, schedules, initializers and draws. usage: test_prelude.py BUILD"""
import itertools, json, math, os, random, re, struct, subprocess, sys, tempfile

BUILD = os.path.abspath(sys.argv[1])
EVALUATE = os.path.join(BUILD, "test", "lang", "evaluate")


# --- arrays ---------------------------------------------------------------------------------------------
class Array:
    """Row-major numbers with a shape."""

    def __init__(self, shape, flat):
        self.shape, self.flat = tuple(shape), list(flat)
        assert math.prod(self.shape) == len(self.flat)

    def offset(self, index):
        at = 0
        for size, i in zip(self.shape, index):
            at = at * size + i
        return at

    def __getitem__(self, index):
        return self.flat[self.offset(index if isinstance(index, tuple) else (index,))]

    def map(self, f):
        return Array(self.shape, [f(v) for v in self.flat])


def indices(shape):
    return itertools.product(*(range(n) for n in shape))


def build(shape, f):
    return Array(shape, [f(*i) for i in indices(shape)])


def scalar(v):
    return Array((), [v])


def f32(v):
    return struct.unpack("<f", struct.pack("<f", v))[0]


def rows(x, f):
    """f applied to each row along the last axis; f gives a row or a number."""
    n = x.shape[-1]
    out = [f(x.flat[i:i + n]) for i in range(0, len(x.flat), n)]
    if isinstance(out[0], list):
        return Array(x.shape[:-1] + (len(out[0]),), [v for row in out for v in row])
    return Array(x.shape[:-1], out)


def move(x, perm):
    shape = [x.shape[p] for p in perm]
    back = [perm.index(i) for i in range(len(perm))]
    return build(shape, lambda *i: x[tuple(i[b] for b in back)])


# --- plain definitions ------------------------------------------------------------------------------------
def softmax(row):
    m = max(row)
    if m == -math.inf:
        return [math.nan] * len(row)
    e = [math.exp(v - m) for v in row]
    return [v / sum(e) for v in e]


def logsumexp(row):
    m = max(row)
    return m if math.isinf(m) else m + math.log(sum(math.exp(v - m) for v in row))


def mean(row):
    return sum(row) / len(row)


def variance(row, correction):
    m = mean(row)
    return sum((v - m) ** 2 for v in row) / (len(row) - correction)


def sigmoid(v):
    return 1 / (1 + math.exp(-v)) if v >= 0 else math.exp(v) / (1 + math.exp(v))


def softplus(v):
    return max(v, 0) + math.log1p(math.exp(-abs(v)))


def normalized(row, eps):
    m, v = mean(row), variance(row, 0)
    return [(x - m) / math.sqrt(v + eps) for x in row]


def cross_entropy(z, ids, smoothing=0.0):
    losses = []
    for row, label in zip([z.flat[i:i + z.shape[-1]] for i in range(0, len(z.flat), z.shape[-1])], ids):
        target = [smoothing / len(row) + (1 - smoothing) * (k == label) for k in range(len(row))]
        losses.append(sum(t * (logsumexp(row) - v) for t, v in zip(target, row)))
    return losses


def convolve(x, w, b=None, stride=1, padding=0):
    n, h, wd, c = x.shape
    o, kh, kw, _ = w.shape
    def at(image, i, j, k):
        value = b[k] if b else 0.0
        for di, dj, ci in indices((kh, kw, c)):
            r, s = i * stride + di - padding, j * stride + dj - padding
            if 0 <= r < h and 0 <= s < wd:
                value += x[image, r, s, ci] * w[k, di, dj, ci]
        return value
    return build((n, (h + 2 * padding - kh) // stride + 1, (wd + 2 * padding - kw) // stride + 1, o), at)


def pool(x, window, stride, padding, value, reduce):
    n, h, w, c = x.shape
    def at(b, i, j, k):
        seen = []
        for di, dj in indices(window):
            r, s = i * stride[0] + di - padding, j * stride[1] + dj - padding
            seen.append(x[b, r, s, k] if 0 <= r < h and 0 <= s < w else value)
        return reduce(seen)
    return build((n, (h + 2 * padding - window[0]) // stride[0] + 1, (w + 2 * padding - window[1]) // stride[1] + 1, c), at)


def attention(q, k, v, allowed=lambda b, h, i, j: True, added=lambda b, h, i, j: 0.0):
    b, h, t, d = q.shape
    s, group = k.shape[2], h // k.shape[1]
    out = {}
    for bi, hi, i in indices((b, h, t)):
        g = hi // group
        score = {j: sum(q[bi, hi, i, e] * k[bi, g, j, e] for e in range(d)) / math.sqrt(d) + added(bi, hi, i, j)
                 for j in range(s) if allowed(bi, hi, i, j)}
        weight = dict(zip(score, softmax(list(score.values())))) if score else {}
        for e in range(d):
            out[bi, hi, i, e] = sum(p * v[bi, g, j, e] for j, p in weight.items())
    return build((b, h, t, d), lambda *i: out[i])


def rotary(x, interleaved):
    *lead, t, d = x.shape
    def at(*index):
        *rest, p, e = index
        i = e // 2 if interleaved else e % (d // 2)
        first, second = (2 * i, 2 * i + 1) if interleaved else (i, i + d // 2)
        a, b = x[(*rest, p, first)], x[(*rest, p, second)]
        angle = p * 10000 ** (-2 * i / d)
        return a * math.cos(angle) - b * math.sin(angle) if e == first else b * math.cos(angle) + a * math.sin(angle)
    return build(x.shape, at)


# --- cases of functions -------------------------------------------------------------------------------------
# name, inputs (name -> shape, or an Array), expression, definition of the inputs. Names that begin with i are i32.
CASES = []


def case(name, inputs, expression, definition, gradients=True):
    CASES.append((name, inputs, expression, definition, gradients))


X = {"x": (3, 5)}
FAR = {"x": Array((8,), [-200.0, -90.0, -5.0, -0.5, 0.25, 5.0, 90.0, 200.0])}
case("mean", X, "(mean x)", lambda x: scalar(mean(x.flat)))
case("mean of an axis", X, "(mean x :axis 0)", lambda x: rows(move(x, [1, 0]), mean))
case("mean that keeps", X, "(mean x :axis [-1] :keep true)",
     lambda x: Array((3, 1), rows(x, mean).flat))
case("mean of two axes", {"x": (2, 3, 4)}, "(mean x :axis [0 2])",
     lambda x: rows(Array((3, 8), move(x, [1, 0, 2]).flat), mean))
case("var", X, "(var x :axis 1)", lambda x: rows(x, lambda r: variance(r, 1)))
case("var of the population", X, "(var x :correction 0)", lambda x: scalar(variance(x.flat, 0)))
case("softmax", X, "(softmax x)", lambda x: rows(x, softmax))
case("softmax of an axis", X, "(softmax x :axis 0)", lambda x: move(rows(move(x, [1, 0]), softmax), [1, 0]))
case("softmax far out", FAR, "(softmax x)", lambda x: rows(x, softmax))
case("log-softmax", X, "(log-softmax x)", lambda x: rows(x, lambda r: [v - logsumexp(r) for v in r]))
case("log-softmax far out", FAR, "(log-softmax x)", lambda x: rows(x, lambda r: [v - logsumexp(r) for v in r]))
case("logsumexp", X, "(logsumexp x :axis -1)", lambda x: rows(x, logsumexp))
case("logsumexp of all", X, "(logsumexp x)", lambda x: scalar(logsumexp(x.flat)))
case("logsumexp that keeps", X, "(logsumexp x :axis 0 :keep true)",
     lambda x: Array((1, 5), rows(move(x, [1, 0]), logsumexp).flat))
case("logsumexp of infinities", {"x": Array((4, 2), [-math.inf, -math.inf, math.inf, 1.0, -math.inf, 2.0, 3.0, 3.0])},
     "(logsumexp x :axis -1)", lambda x: rows(x, logsumexp), gradients=False)
case("sigmoid", FAR, "(sigmoid x)", lambda x: x.map(sigmoid))
case("relu", FAR, "(relu x)", lambda x: x.map(lambda v: max(v, 0.0)))
case("gelu", X, "(gelu x)", lambda x: x.map(lambda v: v * 0.5 * (1 + math.erf(v / math.sqrt(2)))))
case("gelu by tanh", X, '(gelu x :approximate "tanh")',
     lambda x: x.map(lambda v: 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v ** 3)))))
case("silu", FAR, "(silu x)", lambda x: x.map(lambda v: v * sigmoid(v)))
case("softplus", FAR, "(softplus x)", lambda x: x.map(softplus))
case("softplus of beta", X, "(softplus x :beta 2)", lambda x: x.map(lambda v: softplus(2 * v) / 2))
LABELS = Array((4,), [0, 2, 1, 2])
case("cross-entropy", {"x": (4, 3), "i": LABELS}, "(cross-entropy x i)",
     lambda x, i: scalar(mean(cross_entropy(x, i.flat))))
case("cross-entropy of positions", {"x": (2, 2, 3), "i": Array((2, 2), LABELS.flat)}, '(cross-entropy x i :reduction "none")',
     lambda x, i: Array((2, 2), cross_entropy(x, i.flat)))
case("cross-entropy, smoothed sum", {"x": (4, 3), "i": LABELS}, '(cross-entropy x i :reduction "sum" :label-smoothing 0.1)',
     lambda x, i: scalar(sum(cross_entropy(x, i.flat, 0.1))))
case("cross-entropy far out", {"x": Array((1, 3), [200.0, -200.0, 0.0]), "i": Array((1,), [1])}, "(cross-entropy x i)",
     lambda x, i: scalar(mean(cross_entropy(x, i.flat))))
case("mse", {"x": (3, 4), "y": (3, 4)}, "(mse x y)",
     lambda x, y: scalar(mean([(a - b) ** 2 for a, b in zip(x.flat, y.flat)])))
case("mse with a number", X, '(mse x 0.5 :reduction "sum")', lambda x: scalar(sum((v - 0.5) ** 2 for v in x.flat)))
NORM = {"x": (2, 3, 4), "w": (4,), "b": (4,)}
case("layer-norm", NORM, "(layer-norm x w b)",
     lambda x, w, b: rows(x, lambda r: [v * g + a for v, g, a in zip(normalized(r, 1e-5), w.flat, b.flat)]))
case("rms-norm", {"x": (2, 3, 4), "w": (4,)}, "(rms-norm x w)",
     lambda x, w: rows(x, lambda r: [v * g / math.sqrt(mean([u * u for u in r]) + 1e-6) for v, g in zip(r, w.flat)]))


def batch_norm(x, w, b):
    columns = [normalized(x.flat[c::4], 1e-5) for c in range(4)]
    return build(x.shape, lambda i, j, c: columns[c][i * 3 + j] * w[c] + b[c])


case("batch-norm", NORM, "(batch-norm x w b)", batch_norm)
case("linear", {"x": (2, 3, 4), "w": (5, 4), "b": (5,)}, "(linear x w b)",
     lambda x, w, b: rows(x, lambda r: [sum(r[i] * w[o, i] for i in range(4)) + b[o] for o in range(5)]))
case("linear without bias", {"x": (4,), "w": (5, 4)}, "(linear x w)",
     lambda x, w: rows(x, lambda r: [sum(r[i] * w[o, i] for i in range(4)) for o in range(5)]))
case("embedding", {"x": (3, 2), "i": Array((2, 2), [2, 0, 2, 1])}, "(embedding i x)",
     lambda x, i: build((2, 2, 2), lambda a, b, c: x[int(i[a, b]), c]))
IMAGE = {"x": (2, 5, 4, 3), "w": (2, 3, 3, 3), "b": (2,)}
case("conv", IMAGE, "(conv x w b)", convolve)
case("conv with stride and padding", IMAGE, "(conv x w b :stride 2 :padding 1)",
     lambda x, w, b: convolve(x, w, b, 2, 1))
case("conv that keeps the size", {"x": (1, 4, 3, 2), "w": (2, 3, 3, 2)}, '(conv x w :padding "same")',
     lambda x, w: convolve(x, w, padding=1))
case("max-pool", {"x": (2, 4, 6, 2)}, "(max-pool x)", lambda x: pool(x, (2, 2), (2, 2), 0, -math.inf, max))
case("max-pool of overlapping windows", {"x": (1, 5, 5, 2)}, "(max-pool x :window 3 :stride 2 :padding 1)",
     lambda x: pool(x, (3, 3), (2, 2), 1, -math.inf, max))
case("max-pool with a rest", {"x": (1, 5, 7, 1)}, "(max-pool x :window [2 3])",
     lambda x: pool(x, (2, 3), (2, 3), 0, -math.inf, max))
case("avg-pool of tiles", {"x": (2, 4, 6, 3)}, "(avg-pool x :window [2 3])", lambda x: pool(x, (2, 3), (2, 3), 0, 0.0, mean))
case("avg-pool", {"x": (1, 5, 6, 2)}, "(avg-pool x :window [2 3] :stride [1 2])",
     lambda x: pool(x, (2, 3), (1, 2), 0, 0.0, mean))
case("avg-pool with padding", {"x": (1, 4, 4, 1)}, "(avg-pool x :padding 1)",
     lambda x: pool(x, (2, 2), (2, 2), 1, 0.0, mean))
HEADS = {"q": (2, 2, 3, 4), "k": (2, 2, 5, 4), "v": (2, 2, 5, 4)}
SQUARE = {"q": (1, 2, 4, 2), "k": (1, 2, 4, 2), "v": (1, 2, 4, 2)}
case("attention", HEADS, "(attention q k v)", attention)
case("causal attention", SQUARE, "(attention q k v :causal true)",
     lambda q, k, v: attention(q, k, v, lambda b, h, i, j: j <= i))
case("attention with a mask", SQUARE, "(attention q k v :mask (!= (iota [4 4] :axis 1) 2))",
     lambda q, k, v: attention(q, k, v, lambda b, h, i, j: j != 2))
case("attention with rows of nothing", SQUARE, "(attention q k v :causal true :mask (> (iota [4 4] :axis 1) 1))",
     lambda q, k, v: attention(q, k, v, lambda b, h, i, j: 1 < j <= i))
case("attention with added scores", {**SQUARE, "m": (4, 4)}, "(attention q k v :mask m)",
     lambda q, k, v, m: attention(q, k, v, added=lambda b, h, i, j: m[i, j]))
case("attention of shared heads", {"q": (1, 4, 3, 2), "k": (1, 2, 3, 2), "v": (1, 2, 3, 2)}, "(attention q k v)", attention)
case("split-heads", {"x": (2, 3, 4)}, "(split-heads x 2)", lambda x: move(Array((2, 3, 2, 2), x.flat), [0, 2, 1, 3]))
case("merge-heads", {"x": (2, 2, 3, 2)}, "(merge-heads x)", lambda x: Array((2, 3, 4), move(x, [0, 2, 1, 3]).flat))
case("rotary", {"x": (1, 2, 5, 6)}, "(rotary x)", lambda x: rotary(x, False))
case("rotary, interleaved", {"x": (2, 5, 4)}, "(rotary x :interleaved true)", lambda x: rotary(x, True))
case("rotary at positions", {"x": (2, 1, 4)}, "(rotary x :positions (full [2 1] 3 :dtype i32))",
     lambda x: build((2, 1, 4), lambda b, t, e: rotary(build((2, 4, 4), lambda b, _, e: x[b, 0, e]), False)[b, 3, e]))
case("clip-norm that clips", X, "(clip-norm x 0.5)",
     lambda x: x.map(lambda v: v * 0.5 / math.sqrt(sum(u * u for u in x.flat))))
case("clip-norm that does not", X, "(clip-norm x 100)", lambda x: x)
case("clip-norm of a list", {"x": (3,), "y": (2,)}, "(concat (clip-norm [x y] 0.5))",
     lambda x, y: Array((5,), [v * 0.5 / math.sqrt(sum(u * u for u in x.flat + y.flat)) for v in x.flat + y.flat]))


# --- running ------------------------------------------------------------------------------------------------
def write_safetensors(path, tensors):
    head, data = {}, b""
    for name, x in tensors.items():
        whole = name.startswith("i")
        raw = struct.pack(f"<{len(x.flat)}{'i' if whole else 'f'}", *(int(v) if whole else v for v in x.flat))
        head[name] = {"dtype": "I32" if whole else "F32", "shape": list(x.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def evaluate(folder, source, *arguments):
    path = os.path.join(folder, "t.sexp")
    with open(path, "w") as f:
        f.write(source)
    result = subprocess.run([EVALUATE, *arguments, path], capture_output=True, text=True, timeout=120)
    if "status ok" not in result.stdout and "status end" not in result.stdout:
        raise AssertionError(result.stdout + result.stderr)
    steps = [{k: float(v) for k, v in re.findall(r"(\S+) (\S+?)(?:,|$)", line.split(":", 1)[1].strip())}
             for line in result.stdout.splitlines() if line.startswith("step ")]
    tensors = {m.group(2): [float(v) for v in m.group(3).split()]
               for m in re.finditer(r"^(param|state) (\S+) \[[^\]]*\](.*)$", result.stdout, re.M)}
    return steps, tensors


def near(got, wanted, tolerance):
    if math.isnan(wanted) or math.isinf(wanted):
        return got == wanted or (math.isnan(got) and math.isnan(wanted))
    return abs(got - wanted) <= tolerance * max(1.0, abs(wanted))


def expect_near(what, got, wanted, tolerance):
    if len(got) != len(wanted):
        raise AssertionError(f"{what}: {len(got)} values, expected {len(wanted)}")
    for i, (a, b) in enumerate(zip(got, wanted)):
        if not near(a, b, tolerance):
            raise AssertionError(f"{what}: element {i} is {a}, expected {b}")


def filled(name, inputs):
    draw = random.Random(name)
    return {k: s if isinstance(s, Array) else build(s, lambda *_: f32(draw.uniform(-1.5, 1.5))) for k, s in inputs.items()}


def difference(inputs, definition, cot, name, i):
    """d sum(cot * definition) / d inputs[name].flat[i]."""
    x, h, side = inputs[name].flat, 1e-5, []
    start = x[i]
    for x[i] in (start + h, start - h):
        side.append(sum(c * v for c, v in zip(cot.flat, definition(**inputs).flat)))
    x[i] = start
    return (side[0] - side[1]) / (2 * h)


def run_case(folder, name, shapes, expression, definition, gradients):
    inputs = filled(name, shapes)
    wanted = definition(**inputs)
    draw = random.Random(name + " cot")
    cot = build(wanted.shape, lambda *_: f32(draw.uniform(0.5, 1.5)))
    write_safetensors(os.path.join(folder, "in.safetensors"), {**inputs, "cot": cot})
    def bind(k, x):
        kind = ":dtype i32 :trainable false" if k.startswith("i") else ""
        return f'({k} (param "{k}" [{" ".join(map(str, x.shape))}] :load (weights "in.safetensors") {kind}))'
    shape = " ".join(map(str, wanted.shape))
    source = f"""(defrun t :seed 1 :steps 1 :optimizer (lambda (p g) g)
  :loss (let ({" ".join(bind(k, x) for k, x in inputs.items())}
              (cot (param "cot" [{shape}] :load (weights "in.safetensors") :trainable false))
              (out (param "out" [{shape}] :init (zeros shape)))
              (y {expression}))
          (+ (sum (* cot y)) (sum (* out (stop-gradient y))))))"""
    _, tensors = evaluate(folder, source, "--steps", "1")
    expect_near("value", tensors["out"], wanted.flat, 2e-6)
    if not gradients:
        return
    for k, x in inputs.items():
        if not k.startswith("i"):
            expect_near(f"gradient of {k}", tensors[k], [difference(inputs, definition, cot, k, i) for i in range(len(x.flat))], 2e-5)


# --- optimizers: p starts at START, its gradient is A p + B ---------------------------------------------------
STEPS = 6


def optimized(shape, update):
    """Parameters after STEPS of update(p, g, memory, t), all lists of numbers, t from 1."""
    n = math.prod(shape)
    p, memory = [f32(0.3 * math.cos(i)) for i in range(n)], {}
    for t in range(1, STEPS + 1):
        g = [v * f32(1 + 0.1 * i) + f32(0.05 * math.sin(3 * i)) for i, v in enumerate(p)]
        p = update(p, g, memory, t)
    return p


def average(memory, name, g, keep):
    memory[name] = [keep * m + (1 - keep) * v for m, v in zip(memory.get(name, [0.0] * len(g)), g)]
    return memory[name]


def adam(lr, b1=0.9, b2=0.999, eps=1e-8, coupled=0.0, decoupled=0.0):
    def update(p, g, memory, t):
        g = [v + coupled * u for v, u in zip(g, p)]
        m, v = average(memory, "m", g, b1), average(memory, "v", [x * x for x in g], b2)
        rate = lr(t - 1) if callable(lr) else lr
        return [x * (1 - rate * decoupled) - rate * (a / (1 - b1 ** t)) / (math.sqrt(b / (1 - b2 ** t)) + eps)
                for x, a, b in zip(p, m, v)]
    return update


def momentum(lr, m, nesterov=False, decay=0.0):
    def update(p, g, memory, t):
        g = [v + decay * u for v, u in zip(g, p)]
        memory["v"] = [m * v + x for v, x in zip(memory.get("v", [0.0] * len(g)), g)]
        return [x - lr * (a + m * v if nesterov else v) for x, a, v in zip(p, g, memory["v"])]
    return update


def lion(lr, b1, b2, decay):
    def update(p, g, memory, t):
        old = memory.get("m", [0.0] * len(g))
        direction = [math.copysign(1, b1 * m + (1 - b1) * v) for m, v in zip(old, g)]
        average(memory, "m", g, b2)
        return [x * (1 - lr * decay) - lr * d for x, d in zip(p, direction)]
    return update


def rms(x):
    return math.sqrt(sum(v * v for v in x) / len(x))


def adafactor(lr, shape):
    def update(p, g, memory, t):
        keep, squares = 1 - t ** -0.8, [v * v for v in g]
        if len(shape) < 2:
            v = average(memory, "v", squares, keep)
        else:
            m, n = shape
            r = average(memory, "r", [sum(squares[i * n:(i + 1) * n]) / n for i in range(m)], keep)
            c = average(memory, "c", [sum(squares[j::n]) / m for j in range(n)], keep)
            v = [r[i] * c[j] / max(mean(r), 1.1920929e-07) for i in range(m) for j in range(n)]
        u = [a / math.sqrt(max(b, 1.1920929e-07 ** 2)) for a, b in zip(g, v)]
        size = max(1e-3, rms(p)) * min(lr, 1 / math.sqrt(t))
        return [x - size / max(1.0, rms(u)) * d for x, d in zip(p, u)]
    return update


def product(a, b, m, k, n):
    return [sum(a[i * k + e] * b[e * n + j] for e in range(k)) for i in range(m) for j in range(n)]


def turned(a, m, n):
    return [a[i * n + j] for j in range(n) for i in range(m)]


def orthogonalized(x, m, n):
    if m > n:
        return turned(orthogonalized(turned(x, m, n), n, m), n, m)
    norm = math.sqrt(sum(v * v for v in x)) + 1e-7
    x = [v / norm for v in x]
    for _ in range(5):
        a = product(x, turned(x, m, n), m, n, m)
        b = [-4.7750 * u + 2.0315 * v for u, v in zip(a, product(a, a, m, m, m))]
        x = [3.4445 * u + v for u, v in zip(x, product(b, x, m, m, n))]
    return x


def muon(lr, shape):
    if len(shape) != 2:
        return adam(0.01, decoupled=0.01)
    def update(p, g, memory, t):
        m = average(memory, "m", g, 0.95)
        direction = orthogonalized([0.95 * a + 0.05 * b for a, b in zip(m, g)], *shape)
        scale = lr * math.sqrt(max(1, shape[0] / shape[1]))
        return [x * (1 - lr * 0.1) - scale * d for x, d in zip(p, direction)]
    return update


def clipped(update, limit):
    def f(p, g, memory, t):
        norm = math.sqrt(sum(v * v for v in g))
        return update(p, [v * min(1, limit / norm) for v in g], memory, t)
    return f


OPTIMIZERS = [
    ("(sgd :lr 0.1)", lambda s: momentum(0.1, 0.0)),
    ("(sgd :lr 0.1 :weight-decay 0.2)", lambda s: momentum(0.1, 0.0, decay=0.2)),
    ("(momentum :lr 0.1 :momentum 0.8)", lambda s: momentum(0.1, 0.8)),
    ("(momentum :lr 0.1 :nesterov true :weight-decay 0.1)", lambda s: momentum(0.1, 0.9, True, 0.1)),
    ("(adam :lr 0.05)", lambda s: adam(0.05)),
    ("(adam :lr 0.05 :beta1 0.8 :beta2 0.9 :eps 1e-3 :weight-decay 0.1)", lambda s: adam(0.05, 0.8, 0.9, 1e-3, 0.1)),
    ("(adam :lr 0.05 :beta1 0 :beta2 0.9)", lambda s: adam(0.05, 0.0, 0.9)),
    ("(adamw :lr 0.05)", lambda s: adam(0.05, decoupled=0.01)),
    ("(adamw :lr 0.05 :weight-decay 0.3 :decays (lambda (path p) (= (rank p) 2)))",
     lambda s: adam(0.05, decoupled=0.3 if len(s) == 2 else 0.0)),
    ("(adam :lr (cosine :peak 0.1 :warmup 3 :total 6))", lambda s: adam(lambda t: cosine(t, 0.1, 3, 6, 0.0))),
    ("(adam :lr (lambda (step) (/ 0.1 (+ (cast step f32) 1))))", lambda s: adam(lambda t: 0.1 / (t + 1))),
    ("(lion :lr 0.01 :weight-decay 0.1)", lambda s: lion(0.01, 0.9, 0.99, 0.1)),
    ("(adafactor :lr 0.05)", lambda s: adafactor(0.05, s)),
    ("(muon :lr 0.02 :other (adamw :lr 0.01))", lambda s: muon(0.02, s)),
    ("(lambda (p g) ((sgd :lr 0.1) p (clip-norm g 0.2)))", lambda s: clipped(momentum(0.1, 0.0), 0.2)),
]


def run_optimizer(folder, expression, update_of):
    shapes = {"p": (5,), "q": (2, 3), "r": (3, 2)}
    tensors = {}
    for k, s in shapes.items():
        n = math.prod(s)
        tensors[k] = Array(s, [f32(0.3 * math.cos(i)) for i in range(n)])
        tensors["a" + k] = Array(s, [f32(1 + 0.1 * i) for i in range(n)])
        tensors["b" + k] = Array(s, [f32(0.05 * math.sin(3 * i)) for i in range(n)])
    write_safetensors(os.path.join(folder, "in.safetensors"), tensors)
    term = """(let ((p (param "{k}" [{s}] :load (weights "in.safetensors")))
                   (a (param "a{k}" [{s}] :load (weights "in.safetensors") :trainable false))
                   (b (param "b{k}" [{s}] :load (weights "in.safetensors") :trainable false)))
               (sum (+ (* 0.5 a p p) (* b p))))"""
    terms = " ".join(term.format(k=k, s=" ".join(map(str, s))) for k, s in shapes.items())
    source = f"(defrun t :seed 1 :steps {STEPS} :loss (+ {terms}) :optimizer {expression})"
    _, got = evaluate(folder, source, "--steps", str(STEPS))
    for k, s in shapes.items():
        expect_near(k, got[k], optimized(s, update_of(s)), 3e-6)


# --- schedules ------------------------------------------------------------------------------------------------
def cosine(t, peak, warmup, total, final):
    rate = final + (peak - final) / 2 * (1 + math.cos(math.pi * min(1, max(0, (t - warmup) / (total - warmup)))))
    return rate * min(1, (t + 1) / warmup) if warmup else rate


def linear_decay(t, peak, warmup, total, final):
    rate = peak + (final - peak) * min(1, max(0, (t - warmup) / (total - warmup)))
    return rate * min(1, (t + 1) / warmup) if warmup else rate


SCHEDULES = [
    ("(constant 0.25)", lambda t: 0.25),
    ("(warmup 0.5 :steps 4)", lambda t: 0.5 * min(1, (t + 1) / 4)),
    ("(warmup (constant 0.5) :steps 4)", lambda t: 0.5 * min(1, (t + 1) / 4)),
    ("(cosine :peak 2 :total 8)", lambda t: cosine(t, 2, 0, 8, 0)),
    ("(cosine :peak 2 :warmup 3 :total 8 :final 0.5)", lambda t: cosine(t, 2, 3, 8, 0.5)),
    ("(linear-decay :peak 2 :total 8)", lambda t: linear_decay(t, 2, 0, 8, 0)),
    ("(linear-decay :peak 2 :warmup 3 :total 8 :final 0.5)", lambda t: linear_decay(t, 2, 3, 8, 0.5)),
]


def run_schedule(folder, expression, rate):
    source = f"""(defrun t :seed 1 :steps 10 :optimizer (sgd :lr 0)
  :loss (sum (* 0 (param "p" [1] :init (zeros shape))))
  :metrics (("rate" (+ (rate-at {expression} (input :step)) (zeros [])))))"""
    steps, _ = evaluate(folder, source, "--steps", "10")
    expect_near("rate", [s["train/rate"] for s in steps], [rate(t) for t in range(10)], 1e-6)


# --- initializers and draws -------------------------------------------------------------------------------------
def started(folder, init, shape):
    """The elements of a parameter as it starts."""
    source = f"""(defrun t :seed 1 :steps 1 :optimizer (lambda (p g) p)
  :loss (sum (param "p" [{shape}] :init {init})))"""
    return evaluate(folder, source, "--steps", "1")[1]["p"]


def spread(values):
    return mean(values), math.sqrt(variance(values, 0))


INITIALIZERS = [  # init, shape, mean, standard deviation, bounds or None
    ("(zeros shape)", "3 4", 0.0, 0.0, (0.0, 0.0)),
    ("(ones shape)", "3 4", 1.0, 0.0, (1.0, 1.0)),
    ("(full shape 2.5)", "3 4", 2.5, 0.0, (2.5, 2.5)),
    ("(glorot shape)", "100 200", 0.0, math.sqrt(2 / 300), (-math.sqrt(6 / 300), math.sqrt(6 / 300))),
    ('(glorot shape :gain 2 :distribution "normal")', "100 200", 0.0, 2 * math.sqrt(2 / 300), None),
    ("(he shape)", "200 100", 0.0, math.sqrt(2 / 100), None),
    ("(he shape :out-axis -1)", "200 100", 0.0, math.sqrt(2 / 200), None),
    ('(he shape :gain 1 :distribution "uniform")', "50 3 3 40", 0.0, math.sqrt(1 / 360), (-math.sqrt(3 / 360), math.sqrt(3 / 360))),
    ("(glorot shape)", "50 3 3 40", 0.0, math.sqrt(2 / 810), None),
    ("(truncated-normal shape :std 0.5)", "100 200", 0.0, 0.5 * 0.87962566, (-1.0, 1.0)),
    ("(truncated-normal shape :mean 1 :low 0 :high 3)", "100 200", 1.79, 0.594, (1.0, 4.0)),
    ("(bernoulli shape :p 0.3)", "100 200", 0.3, math.sqrt(0.21), (0.0, 1.0)),
]


def run_initializer(folder, init, shape, center, deviation, bounds):
    values = started(folder, init, shape)
    got = spread(values)
    slack = 0.025 * max(deviation, 1e-9)
    if abs(got[0] - center) > slack + 1e-2 * abs(center) * (deviation > 0) or abs(got[1] - deviation) > slack:
        raise AssertionError(f"mean and deviation {got}, expected {center}, {deviation}")
    if bounds and not bounds[0] - 1e-6 <= min(values) <= max(values) <= bounds[1] + 1e-6:
        raise AssertionError(f"{min(values)} to {max(values)}, expected within {bounds}")


def run_truncated_quantiles(folder):
    """The distribution function of truncated-normal at some points, within sampling error."""
    values = sorted(started(folder, "(truncated-normal shape)", "100 200"))
    phi = lambda v: 0.5 * (1 + math.erf(v / math.sqrt(2)))
    for v in (-1.9, -1.5, -1.0, -0.3, 0.0, 0.7, 1.2, 1.8):
        share = sum(x <= v for x in values) / len(values)
        if abs(share - (phi(v) - phi(-2)) / (phi(2) - phi(-2))) > 0.015:
            raise AssertionError(f"{share} of the values are at most {v}")


def run_hidden_rows(folder):
    """logsumexp of a row of -inf has gradient 0, beside rows that have others."""
    write_safetensors(os.path.join(folder, "in.safetensors"), {"x": Array((2, 2), [-math.inf, -math.inf, -math.inf, 2.0])})
    source = """(defrun t :seed 1 :steps 1 :optimizer (lambda (p g) g)
  :loss (let ((y (logsumexp (param "x" [2 2] :load (weights "in.safetensors")) :axis -1)))
          (sum (where (= y -inf) 0 y))))"""
    expect_near("gradient", evaluate(folder, source, "--steps", "1")[1]["x"], [0, 0, 0, 1], 1e-6)


def run_relu_edges(folder):
    """relu has gradient 0 at 0 and keeps NaN."""
    write_safetensors(os.path.join(folder, "in.safetensors"), {"x": Array((4,), [0.0, -0.0, 1.0, math.nan])})
    source = """(defrun t :seed 1 :steps 1 :optimizer (lambda (p g) g)
  :loss (let ((y (relu (param "x" [4] :load (weights "in.safetensors")))))
          (+ (sum y) (sum (* (param "y" [4] :init (zeros shape)) (stop-gradient y))))))"""
    tensors = evaluate(folder, source, "--steps", "1")[1]
    expect_near("value", tensors["y"], [0, 0, 1, math.nan], 0)
    expect_near("gradient", tensors["x"], [0, 0, 1, 1], 0)


def run_half(folder):
    """In bf16 sums are taken in f32: a mean of 1000 equal numbers is that number."""
    source = """(defrun t :seed 1 :steps 1 :optimizer (sgd :lr 0)
  :loss (sum (* 0 (param "p" [1] :init (zeros shape))))
  :metrics (("mean" (cast (mean (full [1000] 0.5 :dtype bf16)) f32))
            ("norm" (cast (reduce-max (layer-norm (cast (iota [256]) bf16) (ones [256] :dtype bf16) (zeros [256] :dtype bf16))) f32))
            ("softmax" (cast (sum (cast (softmax (full [1000] 3 :dtype bf16)) f32)) f32))))
"""
    values = evaluate(folder, source, "--steps", "1")[0][0]
    expect_near("values", [values["train/" + k] for k in ("mean", "norm", "softmax")], [0.5, 127.5 / 73.9, 1], 4e-3)


def run_dropout(folder):
    """In training: zeros and x / (1 - p), anew each microbatch and step; in evaluations x."""
    source = """(defrun t :seed 1 :steps 3 :microbatches 2 :optimizer (sgd :lr 0)
  :loss (sum (* 0 (param "p" [1] :init (zeros shape))))
  :metrics (("mean" (mean (dropout (ones [10000]) :p 0.25)))
            ("top" (reduce-max (dropout (ones [10000]) :p 0.25)))
            ("none" (mean (dropout (ones [4]) :p 0)))))
"""
    steps, _ = evaluate(folder, source, "--steps", "3")
    means = [s["train/mean"] for s in steps]
    if len(set(means)) != 3 or not all(abs(m - 1) < 0.03 for m in means):
        raise AssertionError(f"means {means}")
    if not all(near(s["train/top"], 4 / 3, 1e-6) and s["train/none"] == 1 for s in steps):
        raise AssertionError(f"{steps}")


def main():
    jobs = [(f"{name}: {expression}", lambda f, c=(name, inputs, expression, definition, gradients): run_case(f, *c))
            for name, inputs, expression, definition, gradients in CASES]
    jobs += [(e, lambda f, e=e, u=u: run_optimizer(f, e, u)) for e, u in OPTIMIZERS]
    jobs += [(e, lambda f, e=e, r=r: run_schedule(f, e, r)) for e, r in SCHEDULES]
    jobs += [(f"{i[0]} [{i[1]}]", lambda f, i=i: run_initializer(f, *i)) for i in INITIALIZERS]
    jobs += [("quantiles of truncated-normal", run_truncated_quantiles), ("dropout", run_dropout),
             ("rows of -inf", run_hidden_rows), ("relu at its edges", run_relu_edges), ("bf16", run_half)]
    failed = 0
    for name, job in jobs:
        try:
            with tempfile.TemporaryDirectory() as folder:
                job(folder)
        except Exception as e:
            failed += 1
            print(f"FAIL {name}\n  " + (str(e) or repr(e)).strip().replace("\n", "\n  "))
    print(f"{len(jobs) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
