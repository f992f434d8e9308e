"""Access control of real nodes: the start, the audit log, a file that changes and breaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from proofkit.accounttokens import AccountIssuer, write_keys
from proofkit.localquorum import LocalQuorum, eventually
from proofkit.loopback import LoopbackNetwork
from proofkit.quorumsecurity import QuorumSecurity
from raftnode.client import RefusedError
from raftnode.errors import ExitCode

CLUSTER_ID = "AccessAccessAccessAcce"
SECRET = "Zm9yYmlkZGVuLXNlY3JldA"
PROGRAM = str(Path(sys.executable).with_name("raftnode"))


def quorum_of(
    tmp_path: Path,
    network: LoopbackNetwork,
    request: pytest.FixtureRequest,
    **settings: str,
) -> LocalQuorum:
    security = QuorumSecurity(
        tmp_path / "security", CLUSTER_ID, peer_tls="disabled", api_tls="disabled"
    )
    cache = {"HYPOTHESIS_STORAGE_DIRECTORY": str(request.config.rootpath / ".hypothesis")}
    return LocalQuorum(
        tmp_path, 3, network, cache | settings, cluster_id=CLUSTER_ID, security=security
    )


async def test_the_audit_log_has_what_clients_and_leaders_changed(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    async with quorum_of(tmp_path, network, request) as quorum:
        await quorum.form(1)
        await quorum.put("key", b"value")
        quorum.nodes[1].start()
        await quorum.observe(quorum.nodes[1])

        async def written() -> bool | None:  # on a thread
            events = [line["event"] for line in quorum.nodes[1].audited()]
            return "voters_changed" in events or None

        await eventually(written, what="the line of the voter change")
        first, second = quorum.nodes[0].audited(), quorum.nodes[1].audited()
        form = next(line for line in first if line.get("operation") == "form")
        assert (form["subject"], form["authenticated_by"]) == ("admin", "token")
        assert (form["outcome"], form["verb"]) == ("done", "admin")
        assert json.loads(form["target"])["cluster_id"] == CLUSTER_ID
        join = next(line for line in second if line.get("operation") == "join")
        assert (join["subject"], join["outcome"]) == ("admin", "done")
        assert any(line["event"] == "voters_changed" for line in second)
        assert not any(line.get("operation") == "putKey" for line in (*first, *second))


SMALL = {
    "RAFTNODE_SEGMENT_BYTES": "16384",
    "RAFTNODE_MAX_BATCH_BYTES": "8192",
    "RAFTNODE_RECORD_MAX_BYTES": "4096",
    "RAFTNODE_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS": "30000",
    "RAFTNODE_SNAPSHOTS_RETAINED": "1",
    "RAFTNODE_LOG_RETENTION_BYTES": "0",
}
"""A log that is soon trimmed, so that another replica begins with a snapshot."""


async def test_the_audit_log_has_the_snapshot_that_a_leader_made_a_node_install(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    async with quorum_of(tmp_path, network, request, **SMALL) as quorum:
        await quorum.form(1)
        leader, follower = quorum.nodes[0], quorum.nodes[1]

        async def trimmed() -> bool | None:
            await quorum.put("key", bytes(1000))
            return (await quorum.info(leader)).log_start_offset > 20 or None

        await eventually(trimmed, what="the log to be trimmed")
        follower.start()
        await quorum.observe(follower)

        async def written() -> dict[str, str] | None:  # on a thread
            lines = [line for line in follower.audited() if line["event"] == "snapshot_installed"]
            return lines[0] if lines else None

        line = await eventually(written, what="the line of the snapshot")
        del line["time"]
        start = (await quorum.info(follower)).log_start_offset
        assert json.loads(line.pop("target"))["end"] >= start > 20
        assert line == {
            "event": "snapshot_installed",
            "authenticated_by": "quorum",
            "outcome": "done",
        }
        assert not any(line["event"] == "snapshot_installed" for line in leader.audited())


async def test_a_wrong_file_leaves_the_last_good_one_in_force_and_shows(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    async with quorum_of(tmp_path, network, request) as quorum:
        await quorum.form(1)
        security = quorum.security
        assert security is not None
        good = security.access_file.read_bytes()
        security.access_file.write_text(json.dumps({"subjects": [{"token": SECRET}]}))
        stale = 'raftnode_access_file_stale{file="access_file"}'

        async def shows(value: str) -> bool | None:
            return f"{stale} {value}" in await metrics(quorum) or None

        await eventually(lambda: shows("1.0"), what="the stale file")
        await quorum.put("key", b"value")
        security.access_file.write_bytes(good)
        await eventually(lambda: shows("0.0"), what="the good file")
        said = quorum.nodes[0].output()
        assert "subjects[0].token: is no field of an access file" in said
        assert SECRET not in said


async def metrics(quorum: LocalQuorum) -> str:
    assert quorum.security is not None
    token = quorum.security.token_file("admin").read_text()
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as http,
        http.get(f"http://{quorum.nodes[0].api}/metrics") as response,
    ):
        return await response.text()


async def test_an_account_of_the_cluster_reads_and_writes_what_it_may(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    issuer, keys = AccountIssuer(), tmp_path / "jwks.json"
    write_keys(keys, issuer)
    async with quorum_of(tmp_path, network, request, RAFTNODE_ACCESS_JWKS_FILE=str(keys)) as quorum:
        await quorum.form(1)
        security = quorum.security
        assert security is not None
        document = json.loads(security.access_file.read_text())
        grant = {"roles": ["read", "write"], "key_prefixes": ["app/"]}
        document["subjects"].append(
            {"name": "app", "service_accounts": ["shop/app"], "grants": [grant]}
        )
        security.access_file.write_text(json.dumps(document))
        security.token_file("app").write_text(issuer.token())
        async with quorum.client_of("app") as client:
            await eventually(lambda: client.put("app/key", b"1"), what="the account's grant")
            with pytest.raises(RefusedError, match="AUTHORIZATION_FAILED"):
                await client.put("other", b"1")
        security.token_file("other").write_text(issuer.token(name="other"))
        async with quorum.client_of("other") as client:
            with pytest.raises(RefusedError, match="AUTHENTICATION_FAILED"):
                await client.put("app/key", b"2")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--access-file", "absent"], "access_file: absent cannot be read: No such file"),
        (["--access-file", "wrong"], "subjects[0].token_hashes[0]: is not sha256:"),
        (["--access-jwks-file", "good"], "access_jwks_file is set without access_file"),
        (["--access-file", "good", "--access-jwks-file", "good"], "is no JSON Web Key Set"),
        (["--audit-log", "/"], "audit_log: / cannot be opened: Is a directory"),
    ],
)
def test_a_node_does_not_start_with_a_wrong_file(flags: list[str], message: str, tmp_path: Path):
    subject = {"name": "a", "token_hashes": [SECRET], "grants": [{"roles": ["read"]}]}
    (tmp_path / "wrong").write_text(json.dumps({"subjects": [subject]}))
    (tmp_path / "good").write_text('{"subjects": []}')
    (tmp_path / "data").mkdir()
    done = subprocess.run(
        [
            PROGRAM,
            "run",
            "--node-id",
            "0",
            "--log-dir",
            "data",
            "--api-listen",
            "127.0.0.1:0",
            "--peer-listen",
            "127.0.0.1:0",
            *flags,
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = done.stdout + done.stderr
    assert (done.returncode, message in said) == (ExitCode.USAGE, True), said
    assert SECRET not in said
    assert [*(tmp_path / "data").iterdir()] == []


async def started_twice(quorum: LocalQuorum) -> list[str]:
    """Start a node on an empty directory, and again; return its directory id of each start."""
    node, directory_ids = quorum.nodes[0], list[str]()
    for _ in range(2):
        node.start()
        [info] = await quorum.wait_running([node])
        directory_ids.append(info.directory_id)
        assert node.stop() == ExitCode.OK
    return directory_ids


async def test_a_first_start_that_formats_its_directory_leaves_a_line_and_the_next_none(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    async with quorum_of(tmp_path, network, request) as quorum:
        first, second = await started_twice(quorum)
        assert first == second
        [line] = quorum.nodes[0].audited()
    del line["time"]
    assert json.loads(line.pop("target")) == {"replica": f"0-{first}", "cluster_id": None}
    assert line == {
        "event": "changed",
        "subject": f"uid {os.getuid()}",
        "authenticated_by": "system",
        "operation": "format",
        "outcome": "done",
    }


async def test_a_first_start_without_an_audit_log_leaves_no_line(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    async with quorum_of(tmp_path, network, request, RAFTNODE_AUDIT_LOG="disabled") as quorum:
        first, second = await started_twice(quorum)
        assert first == second
        assert not quorum.nodes[0].audited()


def test_formatting_leaves_a_line(tmp_path: Path):
    subprocess.run(
        [
            PROGRAM,
            "storage",
            "format",
            "--node-id",
            "1",
            "--log-dir",
            "data",
            "--standalone",
            "--audit-log",
            "audit",
        ],
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        check=True,
    )
    [line] = (tmp_path / "audit").read_text().splitlines()
    record = json.loads(line)
    assert (record["operation"], record["authenticated_by"]) == ("format", "system")
    assert record["subject"].startswith("uid ")


def test_the_commands_hash_a_token_and_check_a_file(tmp_path: Path):
    def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, "access", *arguments],
            cwd=tmp_path,
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    hashed = run("hash", given=f"{SECRET}\n")
    assert hashed.returncode == 0
    (tmp_path / "token").write_text(SECRET)
    assert run("hash", "--token-file", "token").stdout == hashed.stdout
    subject = {
        "name": "app",
        "token_hashes": [hashed.stdout.strip()],
        "grants": [{"roles": ["write", "read"]}],
    }
    (tmp_path / "access.json").write_text(
        json.dumps({"subjects": [subject], "anonymous": {"grants": [{"roles": ["metrics"]}]}})
    )
    checked = run("check", "access.json")
    assert checked.stdout == "app: read, write\n(clients without credentials): metrics\n"
    subject["token_hashes"] = [SECRET]
    (tmp_path / "access.json").write_text(json.dumps({"subjects": [subject]}))
    refused = run("check", "access.json")
    assert refused.returncode == ExitCode.USAGE
    assert "subjects[0].token_hashes[0]" in refused.stderr
    for empty in (run("hash", given=""), run("hash", given="two words"), refused):
        assert empty.returncode == ExitCode.USAGE
        assert SECRET not in empty.stdout + empty.stderr
        assert "two words" not in empty.stderr
