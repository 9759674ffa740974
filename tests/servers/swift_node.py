"""Starts servers of OpenStack Swift for swift.py and stays their parent: they end with it, and it ends with the
process that started it. Run with python3 -I, so that `swift` is the installed package and not swift.py.

usage: swift_node.py FOLDER PARENT    with swift.conf and ports.json in FOLDER. For each KIND read from standard input,
                                      a line each, starts the server of FOLDER/KIND.conf and prints its process id."""
import ctypes, json, os, signal, sys, time
from array import array


def end_with(parent):
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


class Memory:
    """What Swift keeps in memcached, kept in the process. What was not found is not remembered: two proxies may
    serve the same buckets."""

    def __init__(self):
        self.values = {}

    def get(self, key, **_):
        value, until = self.values.get(key, (None, 0))
        return value if time.monotonic() < until else None

    def set(self, key, value, **options):
        if not isinstance(value, dict) or str(value.get("status", 200)).startswith("2"):
            self.values[key] = (value, time.monotonic() + (options.get("time") or 60))

    def delete(self, key, **_):
        self.values.pop(key, None)


def cache_filter(_, **__):
    memory = Memory()

    def filter_of(app):
        def run(environ, start_response):
            environ["swift.cache"] = memory
            return app(environ, start_response)
        return run
    return filter_of


def write_rings(folder, ports):
    """One device holds every partition."""
    from swift.common.ring import RingData
    for kind in ("account", "container", "object"):
        device = {"id": 0, "region": 1, "zone": 1, "ip": "127.0.0.1", "port": ports[kind], "device": "disk", "weight": 1.0,
                  "replication_ip": "127.0.0.1", "replication_port": ports[kind], "meta": ""}
        RingData([array("H", [0] * 16)], [device], 28).save(os.path.join(folder, f"{kind}.ring.gz"))


def main(folder, parent):
    end_with(int(parent))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the servers
    from swift.common import utils
    utils.SWIFT_CONF_FILE = os.path.join(folder, "swift.conf")  # else /etc/swift/swift.conf alone
    from swift.common import wsgi
    import swift.account.server, swift.container.server, swift.obj.server, swift.proxy.server
    utils.eventlet_monkey_patch()  # this and the imports once, before the forks, so that a restart is quick
    wsgi.drop_privileges = lambda user: None
    sys.modules["swift_node"] = sys.modules["__main__"]  # where proxy.conf looks for cache_filter
    with open(os.path.join(folder, "ports.json")) as f:
        write_rings(folder, json.load(f))
    me = os.getpid()
    for kind in map(str.strip, sys.stdin):
        child = os.fork()
        if child == 0:
            end_with(me)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(2, 1)
            section = f"{kind.split('-')[0]}-server"
            os._exit(wsgi.run_wsgi(os.path.join(folder, f"{kind}.conf"), section, verbose=True) or 0)
        print(child, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
