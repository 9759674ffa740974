#!/usr/bin/env python3
"""A one-node OpenStack Swift with its S3 API on loopback: an S3 server for tests. It needs the package python3-swift
and a file system with user extended attributes; no root, nothing of /etc/swift, no memcached. Several can run at once.

    with Swift(folder) as swift: ...               # in a test
    /usr/bin/python3 tests/servers/swift.py        # by hand: prints the variables to export; Control-C ends it

The servers are Swift's own: proxy with s3api and tempauth, account, container, object."""
import atexit, fcntl, json, os, random, shutil, signal, socket, subprocess, sys, tempfile, time

USERS = {  # role -> access key id, secret access key
    "data": ("reader:data", "Data/Secret+of0the1tests2never3to4be5printed"),
    "checkpoint": ("writer:checkpoint", "Checkpoint/Secret+of6the7tests8never9printed"),
}
REGION = "test-region-1"
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
NODE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "swift_node.py")
STORAGE = ("account", "container", "object")
PIPELINE = ("catch_errors gatekeeper healthcheck proxy-logging cache listing_formats s3api tempauth copy slo dlo "
            "proxy-logging proxy-server")


def why_not(folder):
    """None when the server can run with its files in `folder`, else the reason in words."""
    found = subprocess.run([PYTHON, "-I", "-c", "import swift.proxy.server, swift.common.middleware.s3api.s3api"],
                           capture_output=True)
    if found.returncode:
        return "OpenStack Swift is not installed (Debian's python3-swift)"
    os.makedirs(folder, exist_ok=True)
    try:
        os.setxattr(folder, "user.sexpgpu.test", b"1")
        os.removexattr(folder, "user.sexpgpu.test")
    except OSError as e:
        return f"no user extended attributes in {folder} ({e.strerror})"
    return None


def free_port():
    """Below the ports that the system gives out, so that it stays free while a server is down."""
    while True:
        port = random.SystemRandom().randrange(15000, 32000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def is_open(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def make_certificates(folder, names):
    """A certificate authority (ca.pem) and a server's certificate of it (server.pem, server.key)."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    with open(os.path.join(folder, "server.ext"), "w") as f:
        f.write("subjectAltName=IP:127.0.0.1," + ",".join(f"DNS:{name}" for name in names) + "\n")
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-sha256"]
    openssl("req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "7", "-subj", "/CN=sexpgpu tests",
            "-addext", "keyUsage=critical,keyCertSign")
    openssl("req", *new_key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "7",
            "-sha256", "-extfile", "server.ext", "-out", "server.pem")


def remove_remains(folder):
    """What tests that were killed have left: nobody holds its lock."""
    for name in os.listdir(folder):
        if not name.startswith("swift-"):
            continue
        try:
            with open(os.path.join(folder, name, "lock")) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        except OSError:
            pass


class Swift:
    """endpoint, port; with tls also tls_endpoint, tls_port and ca_file. s3.Client makes buckets and looks inside."""

    def __init__(self, folder, tls=False, names=()):
        """Starts, in a new directory of `folder`. names: host names of the certificate besides localhost."""
        os.makedirs(folder, exist_ok=True)
        remove_remains(folder)
        new = tempfile.mkdtemp(prefix="new-", dir=os.path.abspath(folder))
        self.folder = os.path.join(os.path.dirname(new), "swift-" + os.path.basename(new)[4:])
        self.lock = open(os.path.join(new, "lock"), "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        os.rename(new, self.folder)  # with its lock held
        self.kinds = [*STORAGE, "proxy"] + (["proxy-tls"] if tls else [])
        self.launcher, self.servers, self.owner = None, {}, os.getpid()
        os.makedirs(os.path.join(self.folder, "devices", "disk"))
        atexit.register(self.stop)
        if tls:
            make_certificates(self.folder, ["localhost", *names])
        for attempt in range(5):  # another process may take a port between its choice and its use
            self._configure()
            try:
                return self.start()
            except RuntimeError as e:
                self.end()
                problem = e
        raise problem

    def _configure(self):
        self.ports = {kind: free_port() for kind in self.kinds}
        self.port, self.tls_port = self.ports["proxy"], self.ports.get("proxy-tls")
        self.endpoint, self.tls_endpoint = f"http://localhost:{self.port}", f"https://localhost:{self.tls_port}"
        self.ca_file = os.path.join(self.folder, "ca.pem")
        self._write("ports.json", [json.dumps(self.ports)])
        self._write("swift.conf", ["[swift-hash]", "swift_hash_path_prefix = test", "swift_hash_path_suffix = node",
                                   "[storage-policy:0]", "name = only", "default = yes"])
        for kind, port in self.ports.items():
            self._write(f"{kind}.conf", self._server(kind, port) +
                        (self._proxy() if kind.startswith("proxy") else
                         [f"pipeline = {kind}-server", f"[app:{kind}-server]", f"use = egg:swift#{kind}"]))

    def _write(self, name, lines):
        with open(os.path.join(self.folder, name), "w") as f:
            f.write("\n".join(lines) + "\n")

    def _server(self, kind, port):
        tls = [f"cert_file = {self.folder}/server.pem", f"key_file = {self.folder}/server.key"]
        return ["[DEFAULT]", "bind_ip = 127.0.0.1", f"bind_port = {port}", "bind_timeout = 5", "workers = 0",
                f"swift_dir = {self.folder}", f"devices = {self.folder}/devices", "mount_check = false",
                "disable_fallocate = true", "fallocate_reserve = 0", f"log_address = {self.folder}/none",
                "log_level = WARNING", *(tls if kind == "proxy-tls" else []), "[pipeline:main]"]

    def _proxy(self):
        settings = {"s3api": ["s3_acl = false", f"location = {REGION}", "storage_domain = localhost"],
                    "tempauth": [f"user_{key.replace(':', '_')} = {secret} .admin" for key, secret in USERS.values()]}
        lines = [f"pipeline = {PIPELINE}", "[app:proxy-server]", "use = egg:swift#proxy", "account_autocreate = true",
                 "[filter:cache]", "paste.filter_factory = swift_node:cache_filter"]
        for name in sorted(set(PIPELINE.split()) - {"proxy-server", "cache"}):
            lines += [f"[filter:{name}]", f"use = egg:swift#{name.replace('-', '_')}"] + settings.get(name, [])
        return lines

    def start(self):
        """Starts what is not running and waits until it answers."""
        if not self.launcher:
            with open(os.path.join(self.folder, "log"), "ab") as log:
                self.launcher = subprocess.Popen([PYTHON, "-I", NODE, self.folder, str(os.getpid())], cwd=self.folder,
                                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                                                 start_new_session=True)
        started = [kind for kind in self.kinds if kind not in self.servers]
        try:
            for kind in started:
                self.launcher.stdin.write(kind + "\n")
                self.launcher.stdin.flush()
                self.servers[kind] = int(self.launcher.stdout.readline())
        except (OSError, ValueError):
            raise RuntimeError(f"Swift does not start; the end of its log:\n{self.log_tail()}") from None
        until = time.monotonic() + 60
        for kind in started:
            while not self._answers(kind):
                if time.monotonic() > until or not os.path.exists(f"/proc/{self.servers[kind]}"):
                    raise RuntimeError(f"Swift's {kind} server does not answer; the end of its log:\n{self.log_tail()}")
                time.sleep(0.01)

    def _answers(self, kind):
        if kind != "proxy":
            return is_open(self.ports[kind])
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as s:
                s.sendall(b"GET /healthcheck HTTP/1.0\r\n\r\n")
                return b" 200 " in s.recv(100)
        except OSError:
            return False

    def kill(self, *kinds):
        """SIGKILL to the servers named, or to all; returns when their ports are closed."""
        for kind in kinds or self.kinds:
            if kind in self.servers:
                os.kill(self.servers.pop(kind), signal.SIGKILL)
                while is_open(self.ports[kind]):
                    time.sleep(0.002)

    def restart(self, *kinds):
        self.kill(*kinds)
        self.start()

    def log_tail(self):
        with open(os.path.join(self.folder, "log"), errors="replace") as f:
            return "".join(f.readlines()[-20:])

    def end(self):
        if self.launcher:
            self.launcher.kill()  # and with it the servers
            self.launcher.communicate()
            for kind in self.servers:
                while is_open(self.ports[kind]):
                    time.sleep(0.002)
        self.launcher, self.servers = None, {}

    def stop(self):
        """Ends the servers and removes all that they stored."""
        if self.owner == os.getpid():
            self.end()
            self.lock.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def environment(self, role="data", prefix="AWS_", tls=False, endpoint=None):
        """The variables with which a tool uses this server as the role's user."""
        key, secret = USERS[role]
        found = {f"{prefix}ACCESS_KEY_ID": key, f"{prefix}SECRET_ACCESS_KEY": secret, f"{prefix}REGION": REGION,
                 f"{prefix}ENDPOINT_URL": endpoint or (self.tls_endpoint if tls else self.endpoint)}
        if tls:
            found["AWS_CA_BUNDLE"] = self.ca_file
        return found


def by_hand():
    import s3
    folder = os.path.join(os.path.dirname(NODE), "..", "..", "build", "servers")
    reason = why_not(folder)
    if reason:
        sys.exit(f"swift.py: {reason}")
    with Swift(folder, tls=True, names=["test.localhost"]) as swift:
        s3.Client(swift.port, *USERS["data"]).make_bucket("test")
        for name, value in swift.environment().items():
            print(f"export {name}='{value}'")
        print(f"# the bucket s3://test is empty. With TLS: export AWS_ENDPOINT_URL={swift.tls_endpoint} "
              f"AWS_CA_BUNDLE='{swift.ca_file}'\n# Control-C ends the server and removes what it stored", flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    by_hand()
