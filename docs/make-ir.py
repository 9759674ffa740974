#!/usr/bin/env python3
"""Writes the tables of operations into docs/ir.md, from the rows of libsexp/ir/ops.def."""
import os, re

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
CLASSES = {"LEAF": "Leaves", "ELEMENT": "Elements", "MOVE": "Moves", "REDUCE": "Reductions", "CONTRACT": "Products",
           "INDEX": "Index operations", "SCAN": "Scans", "RANDOM": "Draws", "META": "Meta"}
DTYPES = {"GIVEN": "stated", "CONST": "stated", "SAME": "any", "PAD": "any", "NUMBER": "numbers", "FLOAT": "floats",
          "COMPARE": "any → bool", "BOOL": "bool", "WHERE": "bool, any, any", "I32": "→ i32", "INDEX": "numbers → i32",
          "ONEHOT": "i32 → stated", "TABLE": "any, i32", "SCATTER": "i32, numbers", "PRODUCT": "floats → stated float",
          "SCAN": "numbers[, i32]", "LINEAR": "floats, floats[, i32]", "DRAW": "i32… → f32", "GRAD": "float scalar, float"}
ROW = re.compile(r'^SX_OP\((\w+),\s*"([^"]*)",\s*(-?\d+),\s*(\w+),\s*(\w+),\s*(\w+),\s*(\w+),\s*"([^"]*)",\s*"([^"]*)"\)', re.M)

with open("libsexp/ir/ops.def", encoding="utf-8") as f:
    rows = ROW.findall(f.read())


def attributes(text):
    names = [re.sub(r"^[irt]:", "", a) for a in text.split(",")] if text else []
    lists = False
    for i, name in enumerate(names):
        lists = lists or name.startswith("I:")
        if lists:
            names[i] = name.replace("I:", "") + "[]"
    return ", ".join(names)


lines = []
for kind, title in CLASSES.items():
    lines += [f"### {title}", "", "| operation | operands | dtypes | attributes | gradient | |", "| --- | --- | --- | --- | --- | --- |"]
    for _, name, n, of, dtype, _, gradient, attrs, text in rows:
        if of == kind:
            flow = {"zero": "none flows", "none": "—"}.get(gradient, "yes")
            text = text.replace("|", "\\|")
            lines.append(f"| `{name}` | {'any' if n == '-1' else n} | {DTYPES[dtype]} | {attributes(attrs)} | {flow} | {text} |")
    lines.append("")

with open("docs/ir.md", encoding="utf-8") as f:
    page = f.read()
begin, end = "<!-- operations -->\n", "<!-- end of operations -->"
head, tail = page.split(begin)[0], page.split(end)[1]
with open("docs/ir.md", "w", encoding="utf-8") as f:
    f.write(head + begin + "\n" + "\n".join(lines) + "\n" + end + tail)
