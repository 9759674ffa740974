#!/usr/bin/env python3
"""sexpgpu-doctor against the real S3 server: each role's user proves its key, over http and https; wrong keys, secrets and
certificates are told apart."""
import os, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import object_storage
from harness import *

DOCTOR = os.path.join(BUILD, "bin", "sexpgpu-doctor")
SERVER = object_storage.need_server(tls=True)


def look(folder, env):
    result = object_storage.watched([DOCTOR, "--json"], {"HOME": folder, **env})
    found = json.loads(result.stdout)
    expect(not schema_errors("doctor.json", [found]), schema_errors("doctor.json", [found]))
    expect(result.returncode == (found["state"] == "fail"), result)
    return {f["name"]: f for f in found["findings"]}


def expect_role(found, role, state, *words):
    line = found[f"s3 {role}"]
    expect(line["state"] == state and line["facts"].get("proved") == (state == "ok"), line)
    for word in words:
        expect(word in line["found"], word, line)


@test
def both_roles_prove_their_keys(folder):
    for tls in (False, True):
        found = look(folder, object_storage.roles(SERVER, tls=tls))
        for role in ("data", "checkpoint"):
            expect_role(found, role, "ok", f"SEXPGPU_{role.upper()}_AWS_SECRET_ACCESS_KEY", "signed request answered in")
        expect(found["clock"]["state"] == "ok" and abs(found["clock"]["facts"]["skew_s"]) <= 3, found["clock"])


@test
def wrong_keys_and_secrets_are_told(folder):
    wrong = {**object_storage.roles(SERVER), "SEXPGPU_DATA_AWS_SECRET_ACCESS_KEY": object_storage.TOKEN}
    found = look(folder, wrong)
    expect_role(found, "data", "fail", "E-S3-007", "SignatureDoesNotMatch")
    expect_role(found, "checkpoint", "ok")
    wrong = {**object_storage.roles(SERVER), "SEXPGPU_CHECKPOINT_AWS_ACCESS_KEY_ID": "nobody:here"}
    found = look(folder, wrong)
    expect_role(found, "checkpoint", "fail", "E-S3-007")
    wrong = {**object_storage.roles(SERVER), "SEXPGPU_DATA_AWS_REGION": "another-region"}
    expect_role(look(folder, wrong), "data", "fail", "E-S3-018")


@test
def a_certificate_of_no_known_authority_is_told(folder):
    env = object_storage.roles(SERVER, tls=True)
    env.pop("AWS_CA_BUNDLE")
    expect_role(look(folder, env), "data", "fail", "E-S3-006")


@test
def a_server_that_is_gone_is_told(folder):
    SERVER.kill("proxy")
    found = look(folder, object_storage.roles(SERVER))
    expect_role(found, "data", "fail", "E-S3-005", "2 attempts")
    SERVER.restart()
    expect_role(look(folder, object_storage.roles(SERVER)), "data", "ok")


main()
