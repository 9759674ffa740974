#!/usr/bin/env python3
"""Which variable gives a credential: each of the values of each role on its own, session tokens with their keys, what
is missing or malformed. Servers on loopback record what was sent and refuse it."""
import hashlib, hmac, http.server, os, re, subprocess, sys, threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *

CHECKPOINT_TOOL = os.path.join(BUILD, "bin", "sexpgpu-checkpoint")
FORMS = {"data": ("SEXPGPU_DATA_AWS_", "SEXPGPU_AWS_", "AWS_"),
         "checkpoint": ("SEXPGPU_CHECKPOINT_AWS_", "SEXPGPU_AWS_", "AWS_")}
NEEDED = ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "ENDPOINT_URL", "REGION")
REFUSAL = b'<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>recorded</Message></Error>'


class Recorder:
    """Answers 403 to all for which content(path) is None, else 200 with that; `requests` are (method, path with query,
    headers)."""

    def __init__(self, content=lambda path: None):
        self.requests = requests = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                requests.append((self.command, self.path, dict((k.lower(), v) for k, v in self.headers.items())))
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                found = content(self.path)
                body = REFUSAL if found is None else found
                self.send_response(403 if found is None else 200)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("ETag", '"d41d8cd98f00b204e9800998ecf8427e"' if body == b"" else '"an-etag"')
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://localhost:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


RECORDERS = [Recorder() for _ in range(3)]
VALUES = {"ACCESS_KEY_ID": ("KEYROLE", "KEYSHARED", "KEYPLAIN"),
          "SECRET_ACCESS_KEY": ("hidden-of-the-role", "hidden-shared", "hidden-plain"),
          "ENDPOINT_URL": tuple(r.url for r in RECORDERS),
          "REGION": ("region-role", "region-shared", "region-plain")}


def experiment(folder, source="s3://some-bucket/points.csv"):
    path = os.path.join(folder, "exp.sexp")
    with open(path, "w") as f:
        f.write(f'''(defdata d :source (csv "{source}" :fields ((x [3] f32) (y f32))))
(defrun r :data d :batch 2 :steps 2 :optimizer (sgd :lr 0.1)
  :loss (mse (reshape (matmul x (param "w" [3 1] :init (zeros shape))) [(dim x 0)]) y))''')
    return path


def use(folder, role, env):
    """A tool that meets an s3:// name of the role."""
    for recorder in RECORDERS:
        recorder.requests.clear()
    command = [RUN, experiment(folder), "--metrics", "stdout"] if role == "data" else \
        [CHECKPOINT_TOOL, "ls", "s3://some-bucket/runs/a"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment(env))
    for text in (result.stdout, result.stderr):
        expect("hidden" not in text and "token-of" not in text, "a secret is shown:", text)
    return result


def sent():
    return [request for recorder in RECORDERS for request in recorder.requests]


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def used(role):
    """What the requests of the last `use` show of each value."""
    hits = [i for i, recorder in enumerate(RECORDERS) if recorder.requests]
    expect(len(hits) == 1, "endpoints:", hits)
    method, path, headers = RECORDERS[hits[0]].requests[0]
    fields = dict(part.strip().split("=", 1) for part in headers["authorization"].split(" ", 1)[1].split(","))
    key, date, region, service, _ = fields["Credential"].split("/")
    path, _, query = path.partition("?")
    query = "&".join(sorted(query.split("&")))
    names = fields["SignedHeaders"].split(";")
    request = "\n".join([method, path, query, *(f"{name}:{headers[name]}" for name in names), "", ";".join(names),
                         headers["x-amz-content-sha256"]])
    text = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], f"{date}/{region}/{service}/aws4_request",
                      hashlib.sha256(request.encode()).hexdigest()])
    secrets = []
    for secret in VALUES["SECRET_ACCESS_KEY"]:
        signing = ("AWS4" + secret).encode()
        for part in (date, region, service, "aws4_request"):
            signing = mac(signing, part)
        if mac(signing, text).hex() == fields["Signature"]:
            secrets.append(secret)
    return {"ACCESS_KEY_ID": key, "SECRET_ACCESS_KEY": secrets[0] if secrets else None,
            "ENDPOINT_URL": RECORDERS[hits[0]].url, "REGION": region, "token": headers.get("x-amz-security-token"),
            "host": headers["host"]}


def given(role, forms):
    """Variables that give each value in its form and in all less specific ones."""
    return {FORMS[role][form] + name: VALUES[name][form] for name, first in forms.items() for form in range(first, 3)}


@test
def each_value_of_each_role_resolves_on_its_own(folder):
    other = {"data": "SEXPGPU_CHECKPOINT_AWS_", "checkpoint": "SEXPGPU_DATA_AWS_"}
    n = 0
    for role in FORMS:
        strange = {other[role] + name: VALUES[name][0] for name in NEEDED}
        for name in NEEDED:
            for form in range(3):
                for rest in (0, 2):
                    forms = {**dict.fromkeys(NEEDED, rest), name: form}
                    result = use(folder, role, {**strange, **given(role, forms)})
                    expect_failure(result, 4, "E-S3-007")
                    found = used(role)
                    for value in NEEDED:
                        expect(found[value] == VALUES[value][forms[value]], role, value, forms, found)
                    n += 1
    print(f"{n} combinations of variables")


@test
def a_session_token_belongs_to_its_key(folder):
    def token(role, key_form, token_form):
        forms = {**dict.fromkeys(NEEDED, 2), "ACCESS_KEY_ID": key_form}
        use(folder, role, {**given(role, forms), FORMS[role][token_form] + "SESSION_TOKEN": f"token-of-{token_form}"})
        return used(role)["token"]

    for role in FORMS:
        for key_form in range(3):
            for token_form in range(3):
                expected = f"token-of-{token_form}" if token_form <= key_form else None
                found = token(role, key_form, token_form)
                expect(found == expected, role, "key of form", key_form, "token of form", token_form, found)


@test
def what_is_missing_is_named_before_the_first_step(folder):
    for role in FORMS:
        plain = given(role, dict.fromkeys(NEEDED, 2))
        for gone in [*((name,) for name in NEEDED), NEEDED]:
            result = use(folder, role, {k: v for k, v in plain.items() if k[4:] not in gone})
            expect_failure(result, 2, "E-S3-020", f"role {role}", "s3://some-bucket/")
            for name in NEEDED:
                words = f"{name} is set nowhere: " + ", ".join(FORMS[role][i] + name for i in (0, 1)) + f" or AWS_{name}"
                expect((words in result.stderr) == (name in gone), words, "in:", result.stderr)
            expect(not sent() and '"value"' not in result.stdout, "it went on")


@test
def malformed_values_are_refused_with_their_variable(folder):
    wrong = [("ACCESS_KEY_ID", ""), ("ACCESS_KEY_ID", "a/hidden"), ("SECRET_ACCESS_KEY", ""), ("SECRET_ACCESS_KEY", "a hidden"),
             ("ENDPOINT_URL", ""), ("ENDPOINT_URL", "ftp://localhost"), ("ENDPOINT_URL", "http://"), ("REGION", ""),
             ("REGION", "a/b"), ("SESSION_TOKEN", ""), ("SESSION_TOKEN", "token-of\tnothing"), ("CA_BUNDLE", "")]
    for role in FORMS:
        plain = given(role, dict.fromkeys(NEEDED, 2))
        for name, value in wrong:
            for form in range(3):
                result = use(folder, role, {**plain, **({} if name != "SESSION_TOKEN" else given(role, {"ACCESS_KEY_ID": form})),
                                            FORMS[role][form] + name: value})
                expect_failure(result, 2, "E-ENV-001", FORMS[role][form] + name)
                expect(not sent(), "it went on")
        for form in range(2):
            expect_failure(use(folder, role, {**plain, FORMS[role][form] + "ADDRESSING": "both"}), 2, "E-ENV-001",
                           FORMS[role][form] + "ADDRESSING", "path or virtual")


@test
def addressing_is_chosen_by_role(folder):
    for role in FORMS:
        plain = given(role, dict.fromkeys(NEEDED, 2))
        port = RECORDERS[2].port
        for value, host in (("path", f"localhost:{port}"), ("virtual", f"some-bucket.localhost:{port}")):
            for form in range(2):
                use(folder, role, {**plain, FORMS[role][form] + "ADDRESSING": value})
                expect(used(role)["host"] == host, role, value, used(role))
        use(folder, role, {**plain, FORMS[role][0] + "ADDRESSING": "path", FORMS[role][1] + "ADDRESSING": "virtual"})
        expect(used(role)["host"] == f"localhost:{port}", "the role's own form wins")


@test
def local_names_need_no_credentials(folder):
    with open(os.path.join(folder, "points.csv"), "w") as f:
        f.write("1,2,3,4\n" * 8)
    result = tool(experiment(folder, "points.csv"), "--quiet", env={"AWS_REGION": "", "SEXPGPU_DATA_AWS_ENDPOINT_URL": "x"})
    expect(result.returncode == 0, result.stderr)


@test
def other_places_of_names_have_their_role(folder):
    env = given("checkpoint", dict.fromkeys(NEEDED, 2))
    for arguments in (["--checkpoint-dir", "s3://some-bucket/runs"], ["--resume", "s3://some-bucket/runs/step-1"]):
        del env["AWS_REGION"]
        result = tool(experiment(folder), *arguments, env=env)
        expect_failure(result, 2, "E-S3-020", "role checkpoint", "SEXPGPU_CHECKPOINT_AWS_REGION")
        env["AWS_REGION"] = "us-test-1"
    for source in ('(manifest "s3://some-bucket/m.json")', '(arrays "s3://some-bucket/a.safetensors")'):
        path = experiment(folder)
        with open(path) as f:
            text = f.read().replace('(csv "s3://some-bucket/points.csv" :fields ((x [3] f32) (y f32)))', source)
        with open(path, "w") as f:
            f.write(text)
        expect_failure(tool(path), 2, "E-S3-020", "role data")


@test
def objects_are_fetched_into_the_directory_of_tmpdir(folder):
    server = Recorder(lambda path: b"1,2,3,4\n" * 8)
    env = {**given("data", dict.fromkeys(NEEDED, 2)), "AWS_ENDPOINT_URL": server.url}
    result = tool(experiment(folder), "--quiet", env={**env, "TMPDIR": folder})
    expect(result.returncode == 0, result.stderr)
    expect(os.listdir(folder) == ["exp.sexp"], "left behind:", os.listdir(folder))
    none = os.path.join(folder, "none")
    expect_failure(tool(experiment(folder), env={**env, "TMPDIR": none}), 4, "E-S3-021", none, "TMPDIR", "s3://some-bucket/points.csv")


LISTING = b"""<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>some-bucket</Name>
<Prefix>runs/</Prefix><KeyCount>1</KeyCount><MaxKeys>1000</MaxKeys><Delimiter>/</Delimiter><IsTruncated>false</IsTruncated>
<CommonPrefixes><Prefix>runs/step-7/</Prefix></CommonPrefixes></ListBucketResult>"""


@test
def a_checkpoint_that_cannot_be_looked_at_is_not_taken_for_torn(folder):
    """`latest` does not fall back to an older one, and a copy does not replace it."""
    server = Recorder(lambda path: LISTING if path.endswith("prefix=runs%2F") else b"" if "probe" in path else None)
    env = {**given("checkpoint", dict.fromkeys(NEEDED, 2)), "AWS_ENDPOINT_URL": server.url}
    with open(os.path.join(folder, "exp.sexp"), "w") as f:
        f.write('(defrun r :steps 7 :optimizer (sgd :lr 0.1) :loss (sum (param "w" [] :init (zeros shape))))')
    result = tool("exp.sexp", "--quiet", "--checkpoint-dir", "local", cwd=folder)
    expect(result.returncode == 0, result.stderr)
    for arguments in (["show", "s3://some-bucket/runs/latest"], ["ls", "s3://some-bucket/runs"],
                      ["prune", "s3://some-bucket/runs", "--keep", "1"], ["cp", "local/step-7", "s3://some-bucket/runs"]):
        result = subprocess.run([CHECKPOINT_TOOL, *arguments], capture_output=True, text=True, cwd=folder, timeout=120,
                                env=environment(env))
        expect_failure(result, 4, "E-S3-007")
        expect("step-7" in server.requests[-1][1], arguments, server.requests)
    changes = [r for r in server.requests if r[0] in ("PUT", "DELETE", "POST") and ".sexpgpu-probe" not in r[1]]
    expect(not changes, changes)


@test
def the_page_of_variables_is_whole(_):
    with open(os.path.join(ROOT, "docs", "environment.md"), encoding="utf-8") as f:
        page = f.read()
    read = set()
    for folder, _, names in os.walk(os.path.join(ROOT, "tools")):
        for name in names:
            if name.endswith(".c"):
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    read |= set(re.findall(r'"(SEXPGPU_[A-Z_]+)"', f.read()))
    told = set(re.findall(r"SEXPGPU_[A-Z_]+", page))
    expect(read == told, "only in the tools:", read - told, "only on the page:", told - read)


main()
