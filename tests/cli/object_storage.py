"""What the tests of object storage share: the server, two users' buckets, tools that are watched for secrets."""
import os, subprocess, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "servers"))
import fault_proxy, harness, s3, swift

CHECKPOINT_TOOL = os.path.join(harness.BUILD, "bin", "sexpgpu-checkpoint")
SERVERS = os.path.join(harness.BUILD, "servers")
BUCKETS = {"data": "test-data", "checkpoint": "test-checkpoints"}


def need_server(tls=False):
    """The server with the two buckets; when it cannot run here, says so and ends the suite."""
    reason = swift.why_not(SERVERS)
    if reason:
        print(f"skipped: tests of object storage need a server: {reason}")
        sys.exit(0)
    server = swift.Swift(SERVERS, tls=tls, names=[f"{bucket}.localhost" for bucket in BUCKETS.values()])
    for role, bucket in BUCKETS.items():
        client(server, role).make_bucket(bucket)
    return server


def client(server, role="checkpoint", port=None):
    return s3.Client(port or server.port, *swift.USERS[role])
