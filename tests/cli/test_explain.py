#!/usr/bin/env python3
"""sexpgpu-explain: the report of a run before it is one, the graphs as text that parses, the plan, JSON, Graphviz."""
import os, re, resource, shutil, subprocess, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *

EXPLAIN = os.path.join(BUILD, "bin", "sexpgpu-explain")
LINEAR = os.path.join(EXAMPLES, "linear", "linear.sexp")
DIGITS = os.path.join(EXAMPLES, "digits", "digits.sexp")
IMAGES = '''
(defknob width 4 :doc "channels")
(defknob name "a\\"b" :doc "quoted")
(defvariant wide :width 8)
(defun model (x)
  (let ((h (scope "layer" (max-pool (relu (conv2d x (param "k" [width 3 3 1] :init (he shape)) :padding 1)) :window 2))))
    (matmul (reshape h [2 (* 16 width)]) (param "w" [(* 16 width) 3] :init (glorot shape)))))
(defrun images :seed 3 :steps 4 :loss (mean (model (normal [2 8 8 1] :salt :step))) :optimizer (adam :lr 0.1))
(defeval held :run images :metrics (("loss" (mean (model (ones [2 8 8 1]))))))
'''


def call(*arguments, env=None, cwd=None, stdin=None, limit_bytes=None):
    limit = (lambda: resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))) if limit_bytes else None
    return subprocess.run([EXPLAIN, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                          env=environment(env), cwd=cwd, input=stdin, preexec_fn=limit)


def text(*arguments, **options):
    result = call(*arguments, **options)
    expect(result.returncode == 0 and not result.stderr, result.returncode, result.stderr[:500])
    return result.stdout


def facts(*arguments, **options):
    found = json.loads(text("--json", *arguments, **options))
    expect(not schema_errors("explain.json", [found]), schema_errors("explain.json", [found]))
    expect(not schema_errors("choices.json", [found["choices"]["object"]]), found["choices"])
    return found


def images(folder):
    path = os.path.join(folder, "images.sexp")
    with open(path, "w") as f:
        f.write(IMAGES)
    return path


@test
def reports_what_a_run_reports(folder):
    for arguments, env in (([LINEAR], {}), ([DIGITS, "--steps", 7, "--set", "hidden=16", "-t", 1], {}),
                           ([images(folder), "--variant", "wide", "--deterministic", "--portable"], {"SEXPGPU_SIMD": "scalar"}),
                           ([DIGITS], {"SEXPGPU_OPTIMIZE": "0"})):
        expect(text(*arguments, env=env) == tool(*arguments, "--explain", env=env).stdout, arguments)
    expect(text(LINEAR, "--report") == text(LINEAR))
    lines = text(LINEAR).splitlines()
    launched = text(LINEAR, env={"SEXPGPU_EXPLAIN": "kernels"}).splitlines()
    plan = text(LINEAR, "--plan").splitlines()
    expect(launched[:-3] == lines[:-3] + plan and launched[-3:] == lines[-3:], launched)
    expect(os.listdir(folder) == ["images.sexp"], "something was made:", os.listdir(folder))


@test
def takes_no_memory_of_a_run(folder):
    path = os.path.join(folder, "huge.sexp")
    with open(path, "w") as f:
        f.write('(defrun huge :seed 1 :steps 1 :optimizer (adam :lr 0.1)\n'
                '  :loss (mean (matmul (normal [1 100000] :salt :step) (param "w" [100000 50000] :init (normal shape)))))')
    limit_bytes = None if is_sanitized() else 2 << 30
    found = facts(path, limit_bytes=limit_bytes)
    expect(found["memory"]["parameters"] == 20_000_000_000 and 120_000_000_000 > found["memory"]["run"] > 60_000_000_000, found["memory"])
    expect("18.6 GiB" in text(path, limit_bytes=limit_bytes))
    refused = call(path, env={"SEXPGPU_MEMORY": "40"})
    expect_failure(refused, 2, "E-DEVICE-002", "the run needs", "SEXPGPU_MEMORY allows 40")
    expect(refused.stderr == tool(path, "--explain", env={"SEXPGPU_MEMORY": "40"}).stderr, refused.stderr)


@test
def gives_the_facts_as_json(folder):
    found = facts(DIGITS, "--steps", 9, "--set", "lr=0.5")
    expect(found["experiment"]["run"] == "digits" and found["experiment"]["steps"] == 9, found["experiment"])
    expect([(k["name"], k["value"], k["source"]) for k in found["knobs"]] ==
           [("hidden", 64, "default"), ("lr", 0.5, "set"), ("steps", 9, "override")], found["knobs"])
    expect([(d["name"], d["order"], d["records"]) for d in found["data"]] ==
           [("train", "shuffled", 1437), ("held-out", "sequential", 360)], found["data"])
    expect(os.path.samefile(found["data"][0]["path"], os.path.join(EXAMPLES, "digits", "digits.csv.gz")))
    expect({p["path"]: p["shape"] for p in found["parameters"]} ==
           {"fc1/b": [64], "fc1/w": [64, 64], "fc2/b": [10], "fc2/w": [64, 10]}, found["parameters"])
    expect(found["parameter_elements"] == 4810 and found["memory"]["parameters"] == 4 * 4810 == found["memory"]["states"])
    expect(found["evaluations"] == [{"name": "held-out", "every": 100, "metrics": ["loss", "accuracy"]}], found["evaluations"])
    training = [g for g in found["graphs"] if g["training"]]
    for mine, theirs in (("nodes_built",) * 2, ("nodes",) * 2, ("groups",) * 2, ("products",) * 2, ("convolutions",) * 2):
        expect(found["step"][mine] == sum(g[theirs] for g in training), mine, found["step"], training)
    memory = found["memory"]
    expect(max(g["bytes"] for g in training) == memory["step"], memory)
    expect(max(g["bytes"] for g in found["graphs"] if not g["name"].startswith("init/")) == memory["activations"], memory)
    kinds = ("parameters", "states", "twice", "gradients", "data", "constants", "activations", "scratch")
    expect(memory["run"] == sum(memory[k] for k in kinds), memory)
    expect(memory["run"] - memory["run_least"] == memory["activations"] - memory["activations_least"] >= 0, memory)
    expect(memory["data"] == (4 * 32 + 64) * (64 + 1) * 4 and memory["gradients"] >= memory["parameters"], memory)
    expect(found["determinism"] == {"level": 2, "text": "2: any CPU repeats these bits with no record (numerics 1)"})
    report = text(DIGITS, "--steps", 9, "--set", "lr=0.5")
    expect(found["choices"]["digest"] in report and found["choices"]["object"]["graph"] == found["experiment"]["identity"])
    first = next(p for p in found["products"] if p["graph"] == "loss")
    expect(first["equation"] == "ik,kj->ij" and [i["shape"] for i in first["inputs"]] == [[32, 64], [64, 64]], first)
    expect(f'  {first["path"]}  {first["file"]}:{first["line"]}:{first["column"]}\n' in report, first, report)


@test
def names_convolutions_and_variants(folder):
    found = facts(images(folder), "--variant", "wide", env={"SEXPGPU_SIMD": "reference"})
    expect(found["experiment"]["variant"] == "wide" and found["device"]["simd"] == "reference", found)
    expect(next(k for k in found["knobs"] if k["name"] == "name")["value"] == 'a"b', found["knobs"])
    ops = [c["op"] for c in found["convolutions"] if c["graph"] == "loss"]
    expect(sorted(ops) == ["conv2d", "conv2d-weight"], ops)
    expect(found["convolutions"][0]["output"] == {"dtype": "f32", "shape": [2, 8, 8, 8]}, found["convolutions"][0])
    expect(found["convolutions"][0]["path"] == "layer" and found["convolutions"][0]["line"] == 6, found["convolutions"][0])


# ---- graphs ----

@test
def shows_the_graphs_after_each_pass(folder):
    whole = text(LINEAR, "--ir")
    names = re.findall(r'^graph "(.*)"$', whole, re.M)
    expect(names[:2] == ["loss", "update"] and "init/w" in names, names)
    expect(text(LINEAR, "--after", "dce") == whole, "dce is the last pass")
    sizes = [text(LINEAR, "--after", p).count("\n%") for p in ("gradient", "simplify", "cse", "dce")]
    expect(sizes[1] > sizes[2] > sizes[3] and sizes[0] > sizes[3], sizes)
    expect("grad/w" in text(LINEAR, "--after", "gradient"))
    expect_failure(call(LINEAR, "--after", "fuse"), 2, "E-RUN-005", 'there is no pass "fuse"', "gradient, simplify, cse, dce")
    again = text(LINEAR, "--ir", env={"SEXPGPU_OPTIMIZE": "0"})
    expect(len(again) > len(whole))


def parse_dot(source):
    """A reader of the part of the language that is written: {cluster label: ({node: label}, [edges])}."""
    string = r'"((?:[^"\\\n]|\\.)*)"'
    lines = source.splitlines()
    expect(re.fullmatch(r"digraph " + string + r" \{", lines[0]) and lines[-1] == "}", lines[0], lines[-1])
    clusters, at, seen = {}, None, set()
    for line in lines[1:-1]:
        node = re.fullmatch(r"    (\w+) \[(?:shape=plaintext, )?label=" + string + r"\];", line)
        edge = re.fullmatch(r"    (\w+) -> (\w+);", line)
        label = re.fullmatch(r"    label=" + string + ";", line)
        if re.fullmatch(r"  subgraph cluster_\d+ \{", line):
            at = ({}, [])
        elif label:
            clusters[label[1]] = at
        elif node:
            expect(node[1] not in seen, "twice:", node[1])
            seen.add(node[1])
            at[0][node[1]] = node[2].replace('\\"', '"')
        elif edge:
            at[1].append((edge[1], edge[2]))
        else:
            expect(line in ("  }", "  node [shape=box];"), "not understood:", line)
    for nodes, edges in clusters.values():
        expect(all(a in nodes and b in nodes for a, b in edges), "an edge leads out of its cluster")
    return clusters


@test
def draws_the_graphs(folder):
    path = images(folder)
    source = text(path, "--dot")
    clusters, found = parse_dot(source), facts(path)
    expect(list(clusters) == [g["name"] for g in found["graphs"]], list(clusters))
    for graph in found["graphs"]:
        nodes = [n for n in clusters[graph["name"]][0] if n.startswith("n")]
        expect(len(nodes) == graph["nodes"], graph, len(nodes))
    loss = clusters["loss"][0].values()
    expect(any(re.fullmatch(r"%\d+ conv2d\\nf32 \[2 8 8 4\]\\nlayer", label) for label in loss), loss)
    expect("loss" in loss and "grad/w" in loss, "outputs are drawn", loss)
    lines = re.findall(r"^%(\d+) = \S+((?: %\d+)*)", text(path, "--ir").split("\noutput")[0], re.M)
    edges = [(f"n0_{i}", f"n0_{n}") for n, inputs in lines for i in re.findall(r"\d+", inputs)]
    expect([e for e in clusters["loss"][1] if e[1][0] == "n"] == edges, edges)
    if shutil.which("dot"):
        svg = subprocess.run(["dot", "-Tsvg"], input=source, capture_output=True, text=True)
        expect(svg.returncode == 0 and not svg.stderr and svg.stdout.count('class="cluster"') == len(clusters), svg.stderr)


@test
def shows_where_values_lie(folder):
    plan = text(images(folder), "--plan")
    heads = re.findall(r'^plan ".*": (\d+) tasks, block (\d+) bytes \(bound (\d+), without reuse (\d+)\)$', plan, re.M)
    graphs = facts(images(folder))["graphs"]
    expect([(int(t), int(b), int(l)) for t, b, l, _ in heads] == [(g["launches"], g["bytes"], g["least_bytes"]) for g in graphs], heads)


# ---- choices, mistakes ----

@test
def explains_a_pinned_run(folder):
    card = "compute_80 with 108 multiprocessors, cuBLAS 130101, cuDNN 91300, NVRTC 13.0, patterns on"
    record = {"device": card, "strict": False, "stacking": 1, "recompute": 10.99, "convolutions": {}, "products": {},
              "node_gradients": None, "numerics": 1}
    path = os.path.join(folder, "record.json")
    with open(path, "w") as f:
        json.dump(record, f)
    found = facts(DIGITS, "--choices", path)
    expect(found["determinism"]["level"] == 3 and card in found["determinism"]["text"], found["determinism"])
    expect(facts(DIGITS, "--choices", "-", stdin=json.dumps(record)) == found)
    expect(facts(DIGITS, env={"SEXPGPU_CHOICES": path}) == found)
    for arguments in ([DIGITS, "--choices", "-"], [DIGITS, "--choices", "-", "--json"]):
        refused = call(*arguments, stdin=json.dumps({**record, "stacking": 4}))
        expect_failure(refused, 3, "E-CHOICE-001", "stacking")
        expect(refused.stdout.count("\n") == ("--json" in arguments) and refused.stdout.count("{") == 2 * ("--json" in arguments),
               refused.stdout)
    expect_failure(call(DIGITS, "--choices", path, "--deterministic"), 3, "E-CHOICE-002")


@test
def refuses_what_it_cannot_take(folder):
    for outputs in (["--ir", "--plan"], ["--json", "--report"], ["--dot", "--after", "cse"]):
        expect_failure(call(LINEAR, *outputs), 2, "E-ENV-002", "found 2 of")
    expect_failure(call(), 2, "E-ENV-004")
    expect_failure(call(LINEAR, DIGITS), 2, "E-ENV-004", "found 2 files")
    expect_failure(call(LINEAR, "--device", "tpu"), 5, "E-DEVICE-001")
    expect_failure(call(LINEAR, "--checkpoint-dir", folder), 2, "E-ENV-002", "--checkpoint-dir")
    for name, value in (("SEXPGPU_EXPLAIN", "all"), ("SEXPGPU_SIMD", "sse"), ("SEXPGPU_MEMORY", "x"), ("SEXPGPU_OPTIMIZE", "2")):
        expect_failure(call(LINEAR, env={name: value}), 2, "E-ENV-001", f'{name}: found "{value}"')
    expect_failure(call(LINEAR, env={"SEXPGPU_NODES": "2"}), 2, "E-ENV-003", "SEXPGPU_NODES")
    expect_failure(call(os.path.join(folder, "none.sexp")), 2, "E-READ-008")
    expect_failure(call(DIGITS, "--set", "nothing=1"), 2, "E-KNOB-", "nothing")
    broken = os.path.join(folder, "broken.sexp")
    with open(broken, "w") as f:
        f.write("(defdata d :source (csv \"gone.csv\" :fields ((x f32)))) (defrun r :seed 1 :steps 1 :data d :batch 1 :loss (sum x))")
    expect_failure(call(broken), 4, "E-DATA-101", "gone.csv")
    with open("/dev/full", "w") as full:
        for output in ("--report", "--json", "--ir"):
            result = subprocess.run([EXPLAIN, LINEAR, output], stdout=full, stderr=subprocess.PIPE, text=True, env=environment())
            expect_failure(result, 4, "E-ENV-012")


@test
def warnings_go_to_standard_error(folder):
    path = os.path.join(folder, "warned.sexp")
    with open(path, "w") as f:
        f.write('(print "said") (defrun r :seed 1 :steps 1 :optimizer (lambda (p g) p)'
                ' :loss (begin (param "unused" [2] :init (zeros shape)) 1.0))')
    result = call(path, "--json")
    expect(result.returncode == 0 and "warning: E-PARAM-" in result.stderr and "said\n" in result.stderr, result.stderr)
    json.loads(result.stdout)


def on_a_device_says_no_implementation_of_the_cpu(folder):
    path = os.path.join(folder, "images.sexp")
    with open(path, "w", encoding="utf-8") as f:
        f.write(IMAGES)
    for flags, expected in ((("--deterministic",), {None}), (("--portable",), {"fma in blocks of 256"})):
        result = subprocess.run([*SIMULATOR, EXPLAIN, path, "--device", "cuda", "--json", *flags], capture_output=True, text=True,
                                timeout=120, env=environment({"XDG_CACHE_HOME": folder}))
        expect(result.returncode == 0, result.stderr)
        found = json.loads(result.stdout)
        expect(not schema_errors("explain.json", [found]), schema_errors("explain.json", [found]))
        expect({c["implementation"] for c in found["products"] + found["convolutions"]} == expected, flags, found["products"])
        expect("compute_80" in found["device"]["name"] or "--portable" in flags, found["device"])


SIMULATOR = simulator()
if SIMULATOR:
    test(on_a_device_says_no_implementation_of_the_cpu)
main()
