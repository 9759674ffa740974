#!/usr/bin/env python3
"""The metrics target `syvain` against a service on loopback: every record once and in order, whatever the service does;
no run waits for it or fails because of it; what it has not taken is kept and sent by the next start."""
import atexit, glob, hashlib, json, os, shutil, signal, subprocess, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "servers"))
from harness import *
from syvain import Service, closed_port, make_certificate

EVALUATE = os.path.join(BUILD, "bin", "sexpgpu-evaluate")
LINEAR = os.path.join(EXAMPLES, "linear", "linear.sexp")
KEY = "Key-that+no_output/shows=="
ENDLESS = """(defrun endless :seed 1 :steps 100000000
  :loss (let ((w (param "w" [64] :init (ones shape)))) (mean (* w w))) :optimizer (sgd :lr 1e-9))"""


def variables(folder, service, url=None, **more):
    """service: of the requests, or None for one that is away."""
    url = url or (service.url if service else f"http://localhost:{closed_port()}/v1/records")
    return {"SYVAIN_METRICS_URL": url, "SYVAIN_METRICS_API_KEY": KEY, "SYVAIN_METRICS_FOLDER_ID": "folder-1",
            "XDG_CACHE_HOME": os.path.join(folder, "cache"), **more}


def run(folder, env, *arguments, target="syvain", program=RUN):
    """A run that ends well; its words, which do not hold the key."""
    result = subprocess.run([program, *map(str, arguments or [LINEAR, "--quiet"]), "--metrics", target], text=True,
                            capture_output=True, timeout=120, env=environment(env), cwd=folder)
    expect(result.returncode == 0, f"exit {result.returncode}:", result.stderr[:500])
    expect(KEY not in result.stdout + result.stderr, "the key is in the output")
    return result.stderr


def kept(folder, living=False):
    """The batches that lie in files; no key is among them. living: a process is at work there."""
    lines = []
    for path in sorted(glob.glob(os.path.join(folder, "cache", "sexpgpu", "syvain", "*", "*"))):
        if living and (path.endswith(".tmp") or not os.path.exists(path)):
            continue
        expect(path.endswith(".jsonl"), path, "was left")
        with open(path, encoding="utf-8") as f:
            text = f.read()
        expect(KEY not in text, "the key is in", path)
        lines += text.splitlines(keepends=True)
    return lines


def lines_of(batches):
    """The metrics stream that batches hold, by stream in the order of their numbers, which have no gap."""
    streams = {}
    for batch in batches:
        streams.setdefault(batch["stream"], []).append(batch)
    result = {}
    for name, of in streams.items():
        of.sort(key=lambda b: b["first"])
        at = 0
        for batch in of:
            expect(batch["first"] == at, f"record {batch['first']} where {at} belongs")
            expect(all(r["run"] == batch["run"] for r in batch["records"]), "a record of another run")
            at += len(batch["records"])
        result[name] = "\n".join(json.dumps(r) for b in of for r in b["records"]) + "\n"
    return result


def only(batches):
    streams = lines_of(batches)
    expect(len(streams) == 1, len(streams), "streams")
    return next(iter(streams.values()))


def names(text):
    return [(r["record"], r.get("name"), r.get("step")) for r in records(text)]


def expect_equal_to_file(folder, text, *arguments):
    """The stream is that of the same run into a file."""
    path = os.path.join(folder, "expected.jsonl")
    run(folder, {}, *(arguments or [LINEAR, "--quiet"]), target=f"jsonl:{path}")
    with open(path, encoding="utf-8") as f:
        expected = f.read()
    os.unlink(path)
    expect(records(steady(text)) == records(steady(expected)), "the records differ from the file's")
    expect(names(text) == names(expected), "the timings differ from the file's")


def until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < end, "no", what)
        time.sleep(0.01)


def start(folder, env, *arguments):
    process = subprocess.Popen([RUN, *map(str, arguments), "--quiet", "--metrics", "syvain"], stderr=subprocess.PIPE,
                               text=True, env=environment(env), cwd=folder)
    atexit.register(lambda: process.poll() is None and process.kill())
    return process


@test
def every_record_arrives_once_and_in_order(folder):
    with Service() as service:
        expect(run(folder, variables(folder, service)) == "", "words")
        batches = service.batches()
        expect(service.doubles == 0 and [b["first"] for b in batches] == sorted(b["first"] for b in batches))
        expect_equal_to_file(folder, only(batches))
        expect(not schema_errors("syvain.json", batches), schema_errors("syvain.json", batches))
        expect(not schema_errors("metrics.json", [r for b in batches for r in b["records"]]))
        for request in service.requests:
            expect(request.headers["Authorization"] == f"Bearer {KEY}" and request.body["folder"] == "folder-1")
            expect(request.headers["Content-Type"] == "application/json")
            expect(request.key == hashlib.sha256(request.raw).hexdigest())
    expect(not kept(folder), "batches were kept")


@test
def the_targets_folder_wins(folder):
    with Service() as service:
        run(folder, variables(folder, service), target="syvain:of \"mine\"".replace(" ", "-"))
        env = variables(folder, service)
        del env["SYVAIN_METRICS_FOLDER_ID"]
        run(folder, env, target="syvain:other")
        expect({b["folder"] for b in service.batches()} == {'of-"mine"', "other"})


@test
def many_records_go_in_several_batches(folder):
    arguments = [LINEAR, "--quiet", "--steps", "1500"]
    with Service() as service:
        run(folder, variables(folder, service), *arguments)
        batches = service.batches()
        expect(len(batches) >= 2 and max(len(b["records"]) for b in batches) <= 1000, [len(b["records"]) for b in batches])
        expect_equal_to_file(folder, only(batches), *arguments)


@test
def what_is_missing_is_named_before_the_first_step(folder):
    with Service() as service:
        for name, status in [("URL", "E-METRIC-005"), ("API_KEY", "E-METRIC-005"), ("FOLDER_ID", "E-METRIC-005")]:
            env = variables(folder, service)
            del env["SYVAIN_METRICS_" + name]
            result = tool(LINEAR, "--metrics", "syvain", "--checkpoint-dir", os.path.join(folder, "runs"), env=env)
            expect_failure(result, 2, status, "SYVAIN_METRICS_" + name)
            expect(KEY not in result.stderr and not glob.glob(os.path.join(folder, "runs", "step*")))
        expect_failure(tool(LINEAR, "--metrics", "syvain:", env=variables(folder, service)), 2, "E-METRIC-001", "folder")
        expect(not service.requests, "something was sent")


@test
def malformed_values_are_refused_and_not_shown(folder):
    for name, value, words in [
        ("URL", "http://example.org/x", "http is for localhost alone"), ("URL", "http://127.0.0.1.example.org/", "localhost alone"),
        ("URL", "ftp://localhost/", "https://HOST"), ("URL", "https://u:secret@localhost/", "without a user"),
        ("URL", "https://", "https://HOST"), ("URL", "metrics.example.org", "https://HOST"), ("URL", "", "a value"),
        ("URL", "https://localhost/#part", "without a user"), ("API_KEY", "", "a value"),
        ("API_KEY", "two words", "printable"), ("API_KEY", "x\r\nX-More: 1", "printable"), ("FOLDER_ID", "a\nb", "printable"),
        ("CA_BUNDLE", os.path.join(folder, "absent.pem"), "PEM"),
    ]:
        env = {**variables(folder, None), "SYVAIN_METRICS_" + name: value}
        result = tool(LINEAR, "--metrics", "syvain", env=env)
        expect_failure(result, 2, "E-ENV-001", "SYVAIN_METRICS_" + name, words)
        expect(value in ("", "https://") or value not in result.stderr, "the value is shown")


@test
def a_service_that_is_away_costs_nothing_but_words(folder):
    words = run(folder, variables(folder, None))
    expect(words.count("E-METRIC-007") == 2 and os.path.join(folder, "cache") in words, words)
    expect_equal_to_file(folder, only([json.loads(line) for line in kept(folder)]))
    with Service() as service:  # at the address that nobody answered at before
        url = service.url
    expect("E-METRIC-007" in run(folder, variables(folder, None, url=url)))


@test
def kept_batches_are_sent_first_and_once(folder):
    with Service(always=503) as service:
        env = variables(folder, service)
        expect("E-METRIC-007" in run(folder, env))
        lines = kept(folder)
        expect_equal_to_file(folder, only([json.loads(line) for line in lines]))
        tried = {r.key for r in service.requests}
        service.always = 200
        expect(run(folder, env) == "", "words")
        expect(not kept(folder), "batches were kept")
        expect(service.doubles == 0 and len(lines_of(service.batches())) == 2)
        expect(list(service.accepted)[:len(lines)] == [hashlib.sha256(line.encode()).hexdigest() for line in lines])
        expect(tried <= set(service.accepted), "a batch came again with another key")


@test
def another_folder_or_url_leaves_kept_batches_alone(folder):
    with Service(always=503) as service:
        run(folder, variables(folder, service))
        lines = kept(folder)
        service.always = 200
        run(folder, variables(folder, service), target="syvain:other")
        expect(kept(folder) == lines and {b["folder"] for b in service.batches()} == {"other"})


@test
def a_service_that_fails_for_a_while_gets_the_same_key_again(folder):
    for answers in ([500, 502], ["reset", "reset"], [(429, [("Retry-After", "1")])], [408, 500]):
        with Service(answers) as service:
            expect(run(folder, variables(folder, service)) == "", "words", answers)
            expect(len({r.key for r in service.requests[:len(answers) + 1]}) == 1, answers)
            expect(service.doubles == 0)
            expect_equal_to_file(folder, only(service.batches()))
    expect(not kept(folder), "batches were kept")


@test
def a_run_ends_while_the_service_holds_its_first_answer(folder):
    with Service(["hold"]) as service:
        env = variables(folder, service)
        words = run(folder, env)
        expect(service.holding.is_set() and not service.released.is_set(), "the answer was not held")
        expect("E-METRIC-007" in words and not service.batches(), words)
        expect_equal_to_file(folder, only([json.loads(line) for line in kept(folder)]))
        service.release()
        until(lambda: service.batches(), "late acceptance")
        run(folder, env)
        expect(service.doubles == 1, "the batch that was taken late came again with another key:", service.doubles)
        expect(len(lines_of(service.batches())) == 2 and not kept(folder))


@test
def a_run_goes_on_while_the_service_is_held(folder):
    path = os.path.join(folder, "endless.sexp")
    with open(path, "w", encoding="utf-8") as f:
        f.write(ENDLESS.replace("[64]", "[400000]"))
    status = os.path.join(folder, "status.json")
    with Service(["hold"]) as service:
        process = start(folder, variables(folder, service), path, "--status", status)
        expect(service.holding.wait(60), "no request")

        def step():
            with open(status, encoding="utf-8") as f:
                return json.load(f)["step"]
        at = step()
        until(lambda: step() > at + 1, "step was made while the answer was held")
        expect(not service.released.is_set())
        service.release()
        process.send_signal(signal.SIGTERM)
        words = process.communicate(timeout=60)[1]
        expect(process.returncode == 128 + signal.SIGTERM, process.returncode, words)
        run(folder, variables(folder, service))  # whatever was kept
        expect(len(lines_of(service.batches())) == 2 and not kept(folder))


@test
def refusals_are_said_once_and_kept(folder):
    arguments = [LINEAR, "--quiet", "--steps", "2500"]
    for status, requests in [(401, 1), (403, 1), (400, None), (413, None), (302, None)]:
        shutil.rmtree(os.path.join(folder, "cache"), ignore_errors=True)
        answer = (status, [("Location", "/elsewhere")]) if status == 302 else status
        with Service(always=answer) as service:
            env = variables(folder, service)
            words = run(folder, env, *arguments)
            expect(words.count("E-METRIC-006") == 1 and str(status) in words, words)
            expect(requests is None or len(service.requests) == requests, len(service.requests), "requests for", status)
            expect(len({r.key for r in service.requests}) == len(service.requests), "a refused batch came again")
            expect_equal_to_file(folder, only([json.loads(line) for line in kept(folder)]), *arguments)
            service.always = 200
            run(folder, env)
            expect(len(lines_of(service.batches())) == 2 and not kept(folder))


@test
def one_refused_batch_does_not_hold_up_the_others(folder):
    arguments = [LINEAR, "--quiet", "--steps", "2500"]
    with Service([200, 400]) as service:
        env = variables(folder, service)
        expect(run(folder, env, *arguments).count("E-METRIC-006") == 1)
        lines = kept(folder)
        expect(len(lines) == 1 and len(service.batches()) >= 2, len(lines))
        only(service.batches() + [json.loads(lines[0])])
        service.answers = [400]
        run(folder, env)
        expect(kept(folder) == lines, "the refused batch is not kept")
        service.answers = [500]
        run(folder, env)
        expect(not kept(folder) and service.doubles == 0, "the batch was not sent again after the service came back")


@test
def a_full_queue_goes_to_a_file_and_is_sent_when_the_service_comes_back(folder):
    path = os.path.join(folder, "long.sexp")
    with open(path, "w", encoding="utf-8") as f:
        f.write(ENDLESS.replace("100000000", "60000"))
    with Service(["hold"]) as service:
        process = start(folder, variables(folder, service), path)
        until(lambda: len(kept(folder, living=True)) > 2, "file")
        service.release()
        words = process.communicate(timeout=120)[1]
        expect(process.returncode == 0 and words == "", process.returncode, words)
        expect(service.doubles == 0 and not kept(folder), "batches were kept")
        expect(only(service.batches()).count("train/loss") == 60000)


@test
def a_killed_run_loses_what_was_in_memory_alone(folder):
    path = os.path.join(folder, "endless.sexp")
    with open(path, "w", encoding="utf-8") as f:
        f.write(ENDLESS)
    with Service(["hold"]) as service:
        process = start(folder, variables(folder, service), path)
        until(lambda: len(kept(folder, living=True)) > 2, "file")
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        service.release()
        lines = [line for line in kept(folder) if line.endswith("\n")]
        name = glob.glob(os.path.join(folder, "cache", "sexpgpu", "syvain", "*", "*.jsonl"))[0]
        with open(name, "a", encoding="utf-8") as f:
            f.write(lines[0][:100])
        run(folder, variables(folder, service))
        expect(not kept(folder), "batches were kept")
        accepted = set(service.accepted)
        expect({hashlib.sha256(line.encode()).hexdigest() for line in lines} <= accepted, "kept batches were not sent")
        expect(all(b["records"] for b in service.batches()))


@test
def runs_at_once_send_what_was_kept_once(folder):
    with Service(always=503) as service:
        env = variables(folder, service)
        for _ in range(3):
            run(folder, env)
        service.always = 200
        seed = [start(folder, env, LINEAR) for _ in range(4)]
        for process in seed:
            words = process.communicate(timeout=60)[1]
            expect(process.returncode == 0, words)
        run(folder, env)
        expect(len(lines_of(service.batches())) == 8 and service.doubles == 0 and not kept(folder),
               len(lines_of(service.batches())), "streams,", service.doubles, "doubles")


@test
def a_place_that_cannot_be_written_costs_the_records_and_not_the_run(folder):
    cache = os.path.join(folder, "cache")
    with open(cache, "w", encoding="utf-8") as f:
        f.write("a file")
    words = run(folder, variables(folder, None))
    path = os.path.join(folder, "expected.jsonl")
    run(folder, {}, target=f"jsonl:{path}")
    with open(path, encoding="utf-8") as f:
        n = len(f.readlines())
    os.unlink(path)
    expect(words.count("E-METRIC-008") == 2 and f"{n} records" in words and cache in words, words)
    env = variables(folder, None)
    del env["XDG_CACHE_HOME"]
    expect("XDG_CACHE_HOME nor HOME" in run(folder, {**env, "HOME": ""}))
    with Service() as service:
        expect(run(folder, variables(folder, service)) == "", "words")
        expect_equal_to_file(folder, only(service.batches()))


@test
def tls_is_verified(folder):
    make_certificate(folder)
    with Service(tls=folder) as service:
        words = run(folder, variables(folder, service))
        expect("E-METRIC-007" in words and not service.requests, "the certificate was not verified:", words)
        env = variables(folder, service, SYVAIN_METRICS_CA_BUNDLE=os.path.join(folder, "server.pem"))
        expect(run(folder, env) == "", "words")
        expect(len(lines_of(service.batches())) == 2 and not kept(folder))
        wrong = {**env, "SYVAIN_METRICS_URL": service.url.replace("localhost", "127.0.0.1")}
        expect("E-METRIC-007" in run(folder, wrong), "the name was not verified")


@test
def plain_text_goes_through_no_proxy(folder):
    with Service() as service:
        proxy = f"http://localhost:{closed_port()}"
        expect(run(folder, variables(folder, service, http_proxy=proxy, all_proxy=proxy, ALL_PROXY=proxy)) == "", "words")
        only(service.batches())


@test
def a_resume_is_told_by_its_annotation(folder):
    runs = os.path.join(folder, "runs")
    with Service() as service:
        env = variables(folder, service)
        run(folder, env, LINEAR, "--quiet", "--steps", "100", "--checkpoint-dir", runs)
        run(folder, env, LINEAR, "--quiet", "--checkpoint-dir", runs, "--resume", "latest")
        one, two = (records(text) for text in lines_of(service.batches()).values())
        expect({r["run"] for r in one} == {r["run"] for r in two}, "the slug changed")
        told = [r for r in two if r.get("name") == "resumed from"]
        expect(len(told) == 1 and told[0]["step"] == 100 and told[0]["text"] == "step-100", told)
        expect(min(r["step"] for r in two if r["record"] == "value") == 101)


@test
def evaluations_are_sent_too(folder):
    path = os.path.join(folder, "held.sexp")
    with open(path, "w", encoding="utf-8") as f:
        f.write(ENDLESS.replace("100000000", "4 :checkpoint-every 2").replace("endless", "r") +
                '(defeval e :run r :every 2 :batches 1 :metrics (("records" (cast (input :records) f32))))')
    run(folder, {}, path, "--quiet", "--checkpoint-dir", "runs", target="jsonl:inline.jsonl")
    with Service() as service:
        run(folder, variables(folder, service), "runs", program=EVALUATE)
        values = [(r["name"], r["step"]) for r in records(only(service.batches())) if r["record"] == "value"]
        expect(values == [("eval/e/records", 2), ("eval/e/records", 4)], values)


@test
def explain_needs_no_service(folder):
    result = tool(LINEAR, "--explain", "--metrics", "syvain")
    expect(result.returncode == 0, result.stderr)


main()
