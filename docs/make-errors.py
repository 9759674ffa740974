#!/usr/bin/env python3
"""Writes docs/errors.md from the tables of error codes (make docs)."""
import ast, os, re

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
TABLES = ("libsexp/base/errors.def", "libckpt/errors.def", "libchoices/errors.def", "tools/common/errors.def")
FAMILIES = {
    "READ": "Reading source text and IR text", "EVAL": "Evaluating the language", "TYPE": "Element types",
    "SHAPE": "Shapes", "PARAM": "Parameters", "GRAD": "Gradients", "KNOB": "Knobs and variants", "RUN": "Runs",
    "DATA": "Data sources and file formats", "LOAD": "Loaded weights", "CKPT": "Checkpoints", "S3": "Object storage", "CHOICE": "Choices",
    "ENV": "Options and environment", "METRIC": "Metrics and status", "DEVICE": "Devices",
}
STRING = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
ROW = re.compile(r"^(?:SX|CKPT|CHOICES)_ERROR\((\w+),\s*\"?(\d+)\"?,\s*(\w+),\s*" + STRING + r",\s*" + STRING + r",\s*" + STRING
                 + r"\)", re.M)


def text(literal):
    return ast.literal_eval("(" + literal.strip() + ")")


rows = []
for table in TABLES:
    with open(table, encoding="utf-8") as f:
        rows += [(a, n, text(t), text(h), text(p)) for a, n, _, t, h, p in ROW.findall(f.read())]
order = {area: i for i, area in enumerate(FAMILIES)}
rows.sort(key=lambda r: (order[r[0]], r[1]))
out = ["# Error codes", "",
       "Every error of the libraries and tools has a code with one meaning. Made from the tables beside the code by "
       "`make docs`; numbers are never reused.", ""]
family = None
for area, number, title, hint, page in rows:
    if area != family:
        family = area
        out += [f"# {FAMILIES[area]}", ""]
    out += [f"## E-{area}-{number}", "", f"*{title}*", "", page, ""]
    if hint:
        out += [f"Hint: {hint}.", ""]
with open("docs/errors.md", "w", encoding="utf-8") as f:
    f.write("\n".join(out).rstrip("\n") + "\n")
