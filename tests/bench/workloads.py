"""Experiments of whole training steps, with their data and weights: for benchmarks, here and on a card.

NumPy makes the values where it is installed; without it they are other values of the same shapes and spread."""
import json, os, random, array

try:
    import numpy
except ImportError:
    numpy = None

BATCHES = 4
NAMES = ("mlp", "cnn", "char", "gpt")
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


class Tiled:
    """What write_safetensors needs of an array: n values of a few, again and again."""

    def __init__(self, shape, tile):
        self.shape, self.tile, self.n = list(shape), tile, 1
        for size in shape:
            self.n *= size
        self.dtype = "float32" if tile.typecode == "f" else "int32"
        self.nbytes = 4 * self.n

    def tobytes(self):
        tile = self.tile.tobytes()
        return (tile * (self.nbytes // len(tile) + 1))[:self.nbytes]


def tiled_floats(shape, scale, around=0.0, draw=None):
    draw = draw or (lambda: around + scale * random.gauss(0, 1))
    return Tiled(shape, array.array("f", (draw() for _ in range(4099))))


def weights_of(name):
    source = numpy.random.default_rng(7) if numpy else random.seed(7)

    def filled(*shape, scale=0.02, around=0):
        if not numpy:
            return tiled_floats(shape, scale, around)
        values = (source.standard_normal(shape) * scale).astype(numpy.float32)
        return 1 + values if around else values

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
            out |= {f"{label}/weight": filled(width, around=1), f"{label}/bias": filled(width)}
        for i in range(depth):
            for label, a, b in (("mix", 1, 3), ("mixed", 1, 1), ("wide", 1, 4), ("narrow", 4, 1)):
                out |= {f"layers/{i}/{label}/weight": filled(b * width, a * width),
                        f"layers/{i}/{label}/bias": filled(b * width)}
    return out


def shapes_of(name):
    """Of x and y of one batch, and below what whole numbers are; None: x is real."""
    if name == "mlp":
        return (128, 784), (128,), None, 10
    if name == "cnn":
        return (64, 32, 32, 3), (64,), None, 10
    _, _, _, context, vocabulary, batch, _ = TRANSFORMERS[name]
    return (batch, context), (batch, context), vocabulary, vocabulary


def plain_data_of(name):
    x, y, x_below, y_below = shapes_of(name)
    random.seed(11)

    def whole(shape, below):
        return Tiled((BATCHES * shape[0], *shape[1:]), array.array("i", (random.randrange(below) for _ in range(4099))))

    reals = None if x_below else tiled_floats((BATCHES * x[0], *x[1:]), 1, draw=random.random)
    return whole(x, x_below) if x_below else reals, whole(y, y_below)


def data_of(name):
    if not numpy:
        return plain_data_of(name)
    source = numpy.random.default_rng(11)
    if name == "mlp":
        return source.random((BATCHES * 128, 784), numpy.float32), source.integers(0, 10, BATCHES * 128, numpy.int32)
    if name == "cnn":
        return (source.standard_normal((BATCHES * 64, 32, 32, 3)).astype(numpy.float32),
                source.integers(0, 10, BATCHES * 64, numpy.int32))
    _, _, _, context, vocabulary, batch, _ = TRANSFORMERS[name]
    ids = source.integers(0, vocabulary, (BATCHES * batch, context + 1), numpy.int32)
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
