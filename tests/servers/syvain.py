"""A metrics service on loopback, as docs/records.md describes it, that can be told how to answer."""
import http.server, json, os, socket, ssl, struct, subprocess, threading


class Request:
    def __init__(self, headers, raw):
        self.headers, self.raw = headers, raw
        self.key = headers.get("Idempotency-Key")
        self.body = json.loads(raw)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.service.take(self, Request(dict(self.headers), raw))

    def answer(self, status, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        text = f"the key was {self.headers.get('Authorization')}".encode()
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads, block_on_close, request_queue_size = True, False, 64

    def handle_error(self, *_):
        pass


class Service:
    """answers: how the first requests are answered: a status, (status, headers), "hold" (until release()), "reset";
    all after them as `always` says. Accepted batches are kept once an idempotency key, as a service does."""

    def __init__(self, answers=(), always=200, tls=None):
        self.answers, self.always, self.lock = list(answers), always, threading.Lock()
        self.requests, self.accepted, self.doubles = [], {}, 0
        self.released, self.holding = threading.Event(), threading.Event()
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.service = self
        self.port = self.server.server_address[1]
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(os.path.join(tls, "server.pem"), os.path.join(tls, "server.key"))
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if tls else 'http'}://localhost:{self.port}/v1/records"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def take(self, handler, request):
        with self.lock:
            self.requests.append(request)
            how = self.answers.pop(0) if self.answers else self.always
        if how == "hold":
            self.holding.set()
            self.released.wait(60)
            how = 200
        if how == "reset":
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.close_connection = True
            handler.connection.close()
            return
        status, headers = how if isinstance(how, tuple) else (how, ())
        if status == 200:
            with self.lock:
                self.doubles += request.key in self.accepted
                self.accepted[request.key] = request.body
        handler.answer(status, headers)

    def release(self):
        self.released.set()

    def batches(self):
        """Those accepted, as they came."""
        with self.lock:
            return list(self.accepted.values())

    def close(self):
        self.release()
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def closed_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def make_certificate(folder):
    """server.pem and server.key for localhost, which is its own authority."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "server.key", "-out", "server.pem",
                    "-days", "7", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
                   cwd=folder, check=True, capture_output=True)
