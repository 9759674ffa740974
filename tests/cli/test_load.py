#!/usr/bin/env python3
"""Parameters that start from files: safetensors and sharded indexes, local and on S3, of the parameter's dtype or widened."""
import json, os, struct, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import object_storage
from harness import *
from object_storage import BUCKETS, SERVERS, swift

NAN, ODD = 0x7fc0, [0x3f80, 0x0001, 0x8000, 0x7f80, 0xff80, 0x7f7f, 0x0080, 0xc2f7]  # one, least, -0, +-inf, greatest...
BF16 = struct.pack("<8H", *ODD[:7], NAN)
WIDE_BF16 = struct.pack("<8I", *(bits << 16 for bits in (*ODD[:7], NAN)))
F16 = struct.pack("<8H", 0x3c00, 0x0001, 0x8000, 0x7c00, 0xfc00, 0x7bff, 0x03ff, 0x7e00)
WIDE_F16 = struct.pack("<4f", 1.0, 2.0**-24, -0.0, float("inf")) + struct.pack("<3f", float("-inf"), 65504.0, 1023 * 2.0**-24) + \
    struct.pack("<I", 0x7fc00000)
F32 = struct.pack("<8f", *range(8))
TENSORS = {"b": ("BF16", BF16), "h": ("F16", F16), "f": ("F32", F32)}


def safetensors(names):
    header, data = {}, b""
    for name in names:
        dtype, content = TENSORS[name]
        header[name] = {"dtype": dtype, "shape": [2, 4], "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


FILES = {"w.safetensors": safetensors("bhf"), "w-1.safetensors": safetensors("b"), "w-2.safetensors": safetensors("hf"),
         "w.safetensors.index.json": json.dumps({"weight_map": {"b": "w-1.safetensors", "h": "w-2.safetensors",
                                                                "f": "w-2.safetensors"}}).encode()}


def experiment(folder, weights, dtype="f32"):
    for name, content in FILES.items():
        with open(os.path.join(folder, name), "wb") as f:
            f.write(content)
    path = os.path.join(folder, "exp.sexp")
    with open(path, "w") as f:
        f.write(f'''(defrun r :steps 1 :optimizer (sgd :lr 0.0)
  :loss (+ (sum (param "t" [] :init (zeros shape))) (* 0 (dim (param "w" [2 4] :dtype {dtype} :trainable false :load {weights}) 0))))''')
    return path


def loaded(folder, weights, dtype="f32", env=None):
    """The bytes of the parameter, and what the checkpoint says of their origin."""
    out = os.path.join(folder, "out")
    result = tool(experiment(folder, weights, dtype), "--quiet", "--checkpoint-dir", out, env=env)
    expect(result.returncode == 0, result.stderr)
    with open(os.path.join(out, "step-1", "parameters.safetensors"), "rb") as f:
        content = f.read()
    n = struct.unpack("<Q", content[:8])[0]
    begin, end = json.loads(content[8:8 + n])["w"]["data_offsets"]
    with open(os.path.join(out, "step-1", "experiment.json"), encoding="utf-8") as f:
        found = json.load(f)["parameters"]
    return content[8 + n + begin:8 + n + end], next(p["load"] for p in found if p["path"] == "w")


CASES = [("b", "", "bf16", BF16), ("h", "", "f16", F16), ("f", "", "f32", F32), ("f", " :dtype f32", "f32", F32),
         ("b", " :dtype bf16", "f32", WIDE_BF16), ("h", " :dtype f16", "f32", WIDE_F16)]
SHARDS = {"w.safetensors": dict.fromkeys("bhf", "w.safetensors"),
          "w.safetensors.index.json": {"b": "w-1.safetensors", "h": "w-2.safetensors", "f": "w-2.safetensors"}}


def check_all(folder, start, env=None):
    for file, shard in SHARDS.items():
        for tensor, words, dtype, expected in CASES:
            found, load = loaded(folder, f'(weights "{start}{file}" "{tensor}"{words})', dtype, env)
            expect(found == expected, file, tensor, words, found.hex(), expected.hex())
            expect((load["file"], load["tensor"]) == (start + shard[tensor], tensor), load)
            expect(load["size"] == len(FILES[shard[tensor]]), load)
            yield load, shard[tensor]


@test
def local_weights_are_taken_or_widened(folder):
    for load, _ in check_all(folder, ""):
        expect(load["version"].startswith("sha256:"), load)


@test
def weights_on_storage_are_taken_or_widened(folder):
    reason = swift.why_not(SERVERS)
    if reason:
        print(f"skipped: weights on S3 need a server: {reason}")
        return
    with object_storage.need_server() as server:
        client = object_storage.client(server, "data")
        etags = {name: client.put(BUCKETS["data"], f"models/{name}", content) for name, content in FILES.items()}
        for load, shard in check_all(folder, f"s3://{BUCKETS['data']}/models/", server.environment("data")):
            expect(load["version"] == etags[shard], load, etags)


@test
def nothing_else_is_converted(folder):
    for words, dtype, fragments in (
            ('"b")', "f32", ["tensor b of", "is bf16", "parameter w is f32"]),
            ('"b" :dtype f16)', "f32", ["tensor b of", "is bf16", "the weights of parameter w are said to be f16"]),
            ('"f" :dtype f32)', "bf16", ["parameter w: it is bf16, its weights are f32"]),
            ('"b" :dtype bf16)', "f16", ["it is f16, its weights are bf16"]),
            ('"b" :dtype i32)', "f32", ["its weights are i32"])):
        result = tool(experiment(folder, f'(weights "w.safetensors" {words}', dtype))
        expect_failure(result, 2, "E-LOAD-011", *fragments)


main()
