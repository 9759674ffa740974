#!/usr/bin/env python3
"""The equipment of the tests of object storage: the server answers as S3 does, and the proxy does each fault."""
import hashlib, http.client, os, signal, socket, ssl, subprocess, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *
from object_storage import *
from fault_proxy import FAULTS, FaultProxy

SERVER = need_server(tls=True)
BUCKET = BUCKETS["checkpoint"]
ODD = ["a b", "a+b", "a%20b", "ü/é", "a//b", "'\"", "what?", "#1", "a/../b", "end/", "~*()!", "&=;", "\U0001f600"]


def refused(status, code, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except s3.Error as e:
        expect(e.status == status and e.code == code, e)
    else:
        raise AssertionError("was not refused")


@test
def objects_are_put_listed_and_got(_):
    c = client(SERVER)
    for key in ODD:
        c.put(BUCKET, key, key.encode(), {"x-amz-meta-of": "test"})
        expect(c.get(BUCKET, key) == key.encode() and c.head(BUCKET, key)["x-amz-meta-of"] == "test", key)
    expect(sorted(c.list(BUCKET)) == sorted(ODD), c.list(BUCKET))
    c.empty(BUCKET)
    expect(c.list(BUCKET) == {})


@test
def signatures_and_hashes_are_checked(_):
    key, secret = swift.USERS["checkpoint"]
    refused(403, "SignatureDoesNotMatch", s3.Client(SERVER.port, key, secret + "x").list, BUCKET)
    refused(404, "NoSuchBucket", client(SERVER, "data").list, BUCKET)
    refused(404, "NoSuchKey", client(SERVER).get, BUCKET, "none")
    wrong = {"x-amz-content-sha256": hashlib.sha256(b"other").hexdigest()}
    refused(400, "BadDigest", client(SERVER).put, BUCKET, "k", b"this", wrong)


@test
def multipart_uploads_complete_and_abort(_):
    c = client(SERVER)
    parts = [b"a" * (5 << 20), b"b"]
    upload = c.begin_upload(BUCKET, "big")
    etags = [c.put_part(BUCKET, "big", upload, n, part) for n, part in enumerate(parts, 1)]
    expect(c.uploads(BUCKET) == [("big", upload)])
    c.complete(BUCKET, "big", upload, etags)
    expect(c.get(BUCKET, "big") == b"".join(parts) and c.head(BUCKET, "big")["etag"].endswith('-2"'))
    c.begin_upload(BUCKET, "big")
    c.empty(BUCKET)
    expect(c.uploads(BUCKET) == [])


@test
def virtual_hosts_and_tls(_):
    c = client(SERVER)
    c.put(BUCKET, "k", b"text")
    context = ssl.create_default_context(cafile=SERVER.ca_file)
    for tls, port in ((False, SERVER.port), (True, SERVER.tls_port)):
        host = f"{BUCKET}.localhost"
        headers = {"Host": f"{host}:{port}", "x-amz-content-sha256": hashlib.sha256(b"").hexdigest()}
        headers["Authorization"] = c.sign("GET", "/k", "", headers)
        with socket.create_connection(("127.0.0.1", port)) as plain:
            stream = context.wrap_socket(plain, server_hostname=host) if tls else plain
            stream.sendall("".join(["GET /k HTTP/1.0\r\n", *(f"{k}: {v}\r\n" for k, v in headers.items()), "\r\n"]).encode())
            answer = http.client.HTTPResponse(stream)
            answer.begin()
            expect(answer.status == 200 and answer.read() == b"text", answer.status)
    try:
        with socket.create_connection(("127.0.0.1", SERVER.tls_port)) as plain:
            ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")
    except ssl.SSLCertVerificationError:
        return
    raise AssertionError("the test's authority is known to the system")


@test
def a_killed_server_keeps_what_it_stored(_):
    c = client(SERVER)
    c.put(BUCKET, "kept", b"text")
    SERVER.restart("proxy")
    SERVER.restart()
    expect(c.get(BUCKET, "kept") == b"text")
    c.empty(BUCKET)


@test
def servers_end_with_a_killed_test(_):
    script = f"import sys; sys.path.insert(0, {os.path.dirname(swift.__file__)!r}); import swift, time; " \
             f"s = swift.Swift({SERVERS!r}); print(s.folder, *s.servers.values(), flush=True); time.sleep(600)"
    process = subprocess.Popen(["/usr/bin/python3", "-c", script], stdout=subprocess.PIPE, text=True)
    folder, *servers = process.stdout.readline().split()
    process.kill()
    process.communicate()
    until = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{server}") for server in servers):
        expect(time.monotonic() < until, "servers outlived the test")
        time.sleep(0.01)
    expect(os.path.isdir(folder) and os.path.isdir(SERVER.folder))
    swift.remove_remains(SERVERS)
    expect(not os.path.exists(folder) and os.path.isdir(SERVER.folder), "only what nobody uses goes")


@test
def the_proxy_does_each_fault(_):
    c, body = client(SERVER), bytes(range(256)) * 40
    c.put(BUCKET, "k", body)
    errors = {"hang": TimeoutError, "reset": ConnectionError, "lost-answer": ConnectionError, "truncate": http.client.IncompleteRead,
              "cut-answer": (ConnectionError, http.client.HTTPException), "cut-request": ConnectionError}
    with FaultProxy(SERVER.port) as proxy:
        through = client(SERVER, port=proxy.port)
        through.timeout = 1
        expect(through.get(BUCKET, "k") == body)
        for name in FAULTS:
            up = name in ("cut-request", "flip-request")
            proxy.fail(name, of="put" if up else "get", bytes=2000, seconds=0.1)
            begin = time.monotonic()
            try:
                got = through.put(BUCKET, "k", body) if up else through.get(BUCKET, "k")
            except s3.Error as e:
                expect(name == "flip-request" if e.status == 400 else str(e.status) == name, name, e)
            except errors.get(name, ()):
                pass
            else:
                expect(name in ("delay", "trickle", "flip", "200") and time.monotonic() - begin > 0.1 * (name in ("delay", "trickle")), name)
                expect((got == body) != (name in ("flip", "200")), name)
            expect(through.get(BUCKET, "k") == body, name)
        expect(sorted(proxy.failed) == sorted(FAULTS) and set(proxy.failed.values()) == {1}, proxy.failed)
        expect(proxy.requests["put"] == 2 and proxy.requests["get"] == 2 * len(FAULTS) - 1, proxy.requests)
    c.empty(BUCKET)


main()
