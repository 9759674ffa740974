"""Checkpoints made without the project's code, from docs/checkpoints.md alone: for tests of what reads them."""
import hashlib, json, os, struct

WIDTHS = {"f32": 4, "bf16": 2, "f16": 2, "f64": 8, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u64": 8, "u32": 4, "u16": 2,
          "u8": 1, "bool": 1}


def sha256(raw):
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def count(shape):
    n = 1
    for dim in shape:
        n *= dim
    return n


def safetensors(tensors):
    """tensors: path -> (dtype, shape, bytes)"""
    header, data = {}, b""
    for path in sorted(tensors, key=lambda p: (-WIDTHS[tensors[p][0]], p.encode())):
        dtype, shape, raw = tensors[path]
        assert len(raw) == count(shape) * WIDTHS[dtype], path
        header[path] = {"dtype": dtype.upper(), "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def digest(parameters, states):
    """Of elements that are canonical."""
    def part(raw):
        return struct.pack("<Q", len(raw)) + raw

    text = part(b"sexpgpu tensors 1")
    for kind, tensors in ((b"parameter", parameters), (b"state", states)):
        for path in sorted(tensors, key=lambda p: p.encode()):
            dtype, shape, raw = tensors[path]
            text += (part(kind) + part(path.encode()) + part(dtype.encode()) +
                     part(struct.pack(f"<{len(shape)}q", *shape)) + part(raw))
    return sha256(text)


def sealed(members):
    text = json.dumps(members, indent=2, ensure_ascii=False).encode()[:-2]
    return text + b',\n  "seal": "' + sha256(text).encode() + b'"\n}\n'


def source(name, text):
    return {"name": name, "sha256": sha256(text.encode()), "text": text}


def write_checkpoint(path, parameters, states=None, **members):
    """Writes directory `path`; members replace those of its experiment.json."""
    states = states or {}
    os.makedirs(path)
    files = {"parameters.safetensors": safetensors(parameters), "states.safetensors": safetensors(states)}
    for name, raw in files.items():
        with open(os.path.join(path, name), "wb") as f:
            f.write(raw)

    def listed(tensors):
        return [{"path": p, "shape": tensors[p][1], "dtype": tensors[p][0]}
                for p in sorted(tensors, key=lambda p: p.encode())]

    experiment = {
        "version": 1, "slug": "made-0001", "file": {**source("made.sexp", "(defrun made)\n"), "includes": []},
        "selection": {"run": "made", "variant": None}, "knobs": [], "step": 3, "records": 96, "stage": 0, "seed": 1,
        "identity": "sha256:12", "parameters": listed(parameters), "states": listed(states), "data": [],
        "world": {"gpus": 0, "nodes": 1}, "choices": {"device": "cpu, numerics 1", "numerics": 1},
        "files": {name: {"size": len(raw), "sha256": sha256(raw)} for name, raw in files.items()},
        "digest": digest(parameters, states), "tool": {"version": "0.1.0", "build": "none"},
        "created": "2026-01-02T03:04:05Z"}
    experiment.update(members)
    with open(os.path.join(path, "experiment.json"), "wb") as f:
        f.write(sealed(experiment))
    return path


def f32(*values):
    return ("f32", [len(values)], struct.pack(f"<{len(values)}f", *values))


def bits32(*values):
    return ("f32", [len(values)], struct.pack(f"<{len(values)}I", *values))
