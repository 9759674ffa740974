"""A proxy on loopback between an S3 client and its server that does what networks and busy servers do, on order.

    with FaultProxy(server.port) as proxy:
        proxy.fail("503", of="part", times=2)      # the next two uploads of a part
        ...                                        # run the tool with proxy.endpoint
        proxy.requests["part"], proxy.failed["503"]  # how many there were

Faults (`bytes` and `seconds` are settings of fail):
    delay          waits `seconds` and goes on
    hang           takes the request and never answers
    500 503 429    takes the request and answers so, with the error's XML
    200            the same with the status 200, as S3 may at the end of an upload
    reset          takes the request and resets the connection (RST)
    lost-answer    the server acts on the request, the client gets a reset
    cut-request    ends both connections after `bytes` of the request's body have gone to the server
    cut-answer     ends after `bytes` of the answer, its head included
    truncate       leaves out the last `bytes` of the answer's body and ends
    trickle        sends the answer's body `bytes` at a time, `seconds` apart
    flip           changes the byte at `bytes` of the answer's body
    flip-request   changes the first byte of the request's body

A request's kind: put get head remove list; of multipart uploads begin part complete abort parts uploads; other."""
import collections, socket, struct, threading, urllib.parse

CODES = {"200": ("200 OK", "InternalError"), "500": ("500 Internal Server Error", "InternalError"),
         "503": ("503 Service Unavailable", "SlowDown"), "429": ("429 Too Many Requests", "TooManyRequests")}
FAULTS = ("delay", "hang", "reset", "lost-answer", "cut-request", "cut-answer", "truncate", "trickle", "flip",
          "flip-request", *CODES)
Fault = collections.namedtuple("Fault", "name of bytes seconds")
Request = collections.namedtuple("Request", "kind method target headers")


class Ended(Exception):
    """The connection is over."""


def kind_of(method, target):
    path, _, query = target.partition("?")
    names = {name for name, _ in urllib.parse.parse_qsl(query, keep_blank_values=True)}
    if "uploadId" in names:
        return {"PUT": "part", "POST": "complete", "DELETE": "abort", "GET": "parts"}.get(method, "other")
    if "uploads" in names:
        return "begin" if method == "POST" else "uploads"
    if "list-type" in names or "prefix" in names:
        return "list"
    return {"PUT": "put", "GET": "get", "HEAD": "head", "DELETE": "remove"}.get(method, "other")


class Stream:
    """Reads a connection by heads and bodies."""

    def __init__(self, connection):
        self.connection, self.ahead = connection, b""

    def head(self):
        """The first line and the headers (lower case); b"" as the line when the other side ended."""
        while b"\r\n\r\n" not in self.ahead:
            more = self.connection.recv(65536)
            if not more:
                raise Ended
            self.ahead += more
        raw, self.ahead = self.ahead.split(b"\r\n\r\n", 1)
        first, *lines = raw.decode("latin-1").split("\r\n")
        return first, dict((name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)), \
            raw + b"\r\n\r\n"

    def some(self, most):
        got, self.ahead = self.ahead[:most], self.ahead[most:]
        got = got or self.connection.recv(min(most, 1 << 18))
        if not got:
            raise Ended
        return got

    def body(self, n):
        while n > 0:
            got = self.some(n)
            n -= len(got)
            yield got

    def chunked(self):
        """The chunks as they are on the wire."""
        while True:
            while b"\r\n" not in self.ahead:
                self.ahead += self.some(65536)
            line, self.ahead = self.ahead.split(b"\r\n", 1)
            n = int(line.split(b";")[0], 16)
            yield line + b"\r\n" + b"".join(self.body(n + 2))
            if n == 0:
                return


class FaultProxy:
    def __init__(self, port):
        """port: the server's, on 127.0.0.1"""
        self.server, self.lock, self.ended = port, threading.Lock(), threading.Event()
        self.faults, self.open = [], set()
        self.requests, self.failed, self.seen = collections.Counter(), collections.Counter(), []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.endpoint = f"http://localhost:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def fail(self, name, of=None, times=1, after=0, bytes=0, seconds=0.0):
        """The fault `name` happens to the next `times` requests (None: all) of the kind `of` (None: any kind), when
        `after` of them have passed. Several happen one after another, in the order of these calls."""
        assert name in FAULTS, name
        with self.lock:
            self.faults.append([Fault(name, of, bytes, seconds), after, times])

    def clear(self):
        """Forgets faults and counts."""
        with self.lock:
            self.faults = []
            self.requests.clear()
            self.failed.clear()
            self.seen = []

    def _take(self, request):
        with self.lock:
            self.requests[request.kind] += 1
            self.seen.append(request)
            for entry in self.faults:
                fault, after, times = entry
                if fault.of not in (None, request.kind) or times == 0:
                    continue
                if after > 0:
                    entry[1] -= 1
                    return None
                entry[2] = None if times is None else times - 1
                self.failed[fault.name] += 1
                return fault
        return None

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        """The requests of one connection, one after another."""
        server = None
        self.open.add(client)
        try:
            stream = Stream(client)
            while True:
                first, headers, raw = stream.head()
                method, target = first.split(" ")[:2]
                fault = self._take(Request(kind_of(method, target), method, target, headers))
                if headers.get("expect", "").lower() == "100-continue":
                    client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                if server is None:
                    server = socket.create_connection(("127.0.0.1", self.server), timeout=60)
                    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._exchange(client, stream, server, raw, method, int(headers.get("content-length", 0)), fault)
        except (Ended, OSError, ValueError):
            pass
        finally:
            self.open.discard(client)
            for connection in (client, server):
                if connection:
                    connection.close()

    def _exchange(self, client, stream, server, head, method, n_bytes, fault):
        name = fault.name if fault else None
        if name == "delay":
            self.ended.wait(fault.seconds)
        if name in CODES or name in ("hang", "reset"):
            for _ in stream.body(n_bytes):
                pass
            self._answer_alone(client, name)
            return
        server.sendall(head)
        left = fault.bytes if name == "cut-request" else None
        for i, piece in enumerate(stream.body(n_bytes)):
            if left is not None:
                server.sendall(piece[:left])
                left -= len(piece)
                if left <= 0:
                    raise Ended
            elif name == "flip-request" and i == 0:
                server.sendall(bytes([piece[0] ^ 1]) + piece[1:])
            else:
                server.sendall(piece)
        if left is not None:
            raise Ended
        self._forward_answer(client, Stream(server), method, fault)

    def _answer_alone(self, client, name):
        if name == "hang":
            client.settimeout(0.2)
            while not self.ended.is_set():
                try:
                    if not client.recv(1):
                        raise Ended
                except TimeoutError:
                    pass
            raise Ended
        if name == "reset":
            self._reset(client)
        line, code = CODES[name]
        body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>asked for by a test</Message></Error>'
        client.sendall(f"HTTP/1.1 {line}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())

    @staticmethod
    def _reset(client):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise Ended

    def _forward_answer(self, client, answer, method, fault):
        first, headers, raw = answer.head()
        while first.split(" ")[1].startswith("1"):
            first, headers, raw = answer.head()
        status = first.split(" ")[1]
        n_bytes = 0 if method == "HEAD" or status in ("204", "304") else int(headers.get("content-length", 0))
        pieces = answer.chunked() if headers.get("transfer-encoding") == "chunked" and method != "HEAD" else answer.body(n_bytes)
        name = fault.name if fault else None
        if name == "lost-answer":
            for _ in pieces:
                pass
            self._reset(client)
        if name == "cut-answer":
            client.sendall((raw + b"".join(pieces))[:fault.bytes])
            raise Ended
        client.sendall(raw)
        if name in ("truncate", "flip", "trickle"):
            self._spoil(client, b"".join(pieces), fault)
        else:
            for piece in pieces:
                client.sendall(piece)
        if headers.get("connection", "").lower() == "close":
            raise Ended

    def _spoil(self, client, body, fault):
        if fault.name == "truncate":
            client.sendall(body[:max(0, len(body) - max(1, fault.bytes))])
            raise Ended
        if fault.name == "flip":
            at = min(fault.bytes, len(body) - 1)
            client.sendall(body[:at] + bytes([body[at] ^ 4]) + body[at + 1:] if body else body)
            return
        step = max(1, fault.bytes)
        for at in range(0, len(body), step):
            client.sendall(body[at:at + step])
            self.ended.wait(fault.seconds)
            if self.ended.is_set():
                raise Ended

    def stop(self):
        self.ended.set()
        try:
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes accept
        except OSError:
            pass
        self.listener.close()
        for client in list(self.open):
            try:
                client.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
