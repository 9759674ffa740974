"""What the tests of object storage share: the server, two users' buckets, runs whose words are searched for secrets."""
import json, os, subprocess, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "servers"))
import harness, s3, swift
from harness import expect

CHECKPOINT_TOOL = os.path.join(harness.BUILD, "bin", "sexpgpu-checkpoint")
SERVERS = os.path.join(harness.BUILD, "servers")
BUCKETS = {"data": "test-data", "checkpoint": "test-checkpoints"}
TOKEN = "Session/Token+of2the3tests4never5printed=="
SECRETS = [secret for _, secret in swift.USERS.values()] + [TOKEN]
searched = {"outputs": 0, "files": 0, "objects": 0}


def need_server(tls=False):
    """The server with the two buckets; when it cannot run here, says so and ends the suite."""
    reason = swift.why_not(SERVERS)
    if reason:
        print(f"skipped: the tests of object storage have no server: {reason}")
        sys.exit(0)
    server = swift.Swift(SERVERS, tls=tls, names=[f"{bucket}.localhost" for bucket in BUCKETS.values()])
    for role, bucket in BUCKETS.items():
        client(server, role).make_bucket(bucket)
    return server


def client(server, role="checkpoint", port=None):
    return s3.Client(port or server.port, *swift.USERS[role])


def roles(server, **options):
    """Each role's own credentials, of the two users."""
    return {**server.environment("data", "SEXPGPU_DATA_AWS_", **options),
            **server.environment("checkpoint", "SEXPGPU_CHECKPOINT_AWS_", **options)}


def no_secret(kind, name, raw):
    searched[kind] += 1
    raw = raw if isinstance(raw, bytes) else raw.encode()
    for secret in SECRETS:
        expect(secret.encode() not in raw, f"a secret is in {name}")


def watched(command, env, **options):
    """Runs a tool to its end; neither what it says nor its status shows a secret."""
    result = subprocess.run([*map(str, command)], capture_output=True, env=harness.environment(env),
                            timeout=options.pop("timeout", 300), **options)
    no_secret("outputs", "standard output", result.stdout)
    no_secret("outputs", "standard error", result.stderr)
    result.raw = result.stdout
    result.stdout, result.stderr = result.stdout.decode(errors="replace"), result.stderr.decode(errors="replace")
    return result


def say_what_was_searched():
    print(f"searched for secrets: {searched['outputs']} outputs, {searched['files']} files, {searched['objects']} objects")


def search_files(folder):
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            if os.path.isfile(path):
                with open(path, "rb") as f:
                    no_secret("files", path, f.read())


def search_objects(found, bucket):
    for key in found.list(bucket):
        no_secret("objects", key, found.get(bucket, key))


def values(text):
    return [line for line in text.splitlines() if json.loads(line)["record"] in ("value", "digest")]


def storage_test(server):
    """A test after which folder and buckets are searched for secrets, no upload is left unfinished, and the buckets are
    emptied."""
    def decorate(function):
        def run(folder):
            try:
                function(folder)
                search_files(folder)
                for role, bucket in BUCKETS.items():
                    search_objects(client(server, role), bucket)
                    expect(client(server, role).uploads(bucket) == [], "unfinished uploads", client(server, role).uploads(bucket))
            finally:
                for role, bucket in BUCKETS.items():
                    client(server, role).empty(bucket)
        run.__name__ = function.__name__
        return harness.test(run)
    return decorate
