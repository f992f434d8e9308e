"""`kraftquorum-operator kafka advise` on real controllers of Apache Kafka."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from typer.testing import CliRunner

from kraftquorum_operator.cli import app
from kraftquorum_operator.kafka.connection import Address
from kraftquorum_operator.kafka.exit_codes import AdviseExitCode
from kraftquorum_operator.kafka.query import Target, query
from kraftquorum_operator.kafka.security import Security
from proofkit.kafkacontroller import PORT, write_settings
from proofkit.kafkaquorum import START_S, KafkaQuorum
from proofkit.loopback import LoopbackNetwork
from raftnode.commands.storage import random_id

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

FIRST_HOST = 31
TLS_PORT = 9094
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
STORAGE = "kafka.tools.StorageTool"


def advise(*words: str) -> tuple[AdviseExitCode, str]:
    """Run the command; returns its exit code and all that it printed."""
    done = CliRunner().invoke(app, ["kafka", "advise", "--timeout-s", "60", *words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return AdviseExitCode(done.exit_code), done.output


def until(code: AdviseExitCode, text: str, *words: str, without: str = "\0") -> str:
    """Repeat the command until it exits so and prints one text and not the other; returns all."""
    deadline, last = time.monotonic() + START_S, (AdviseExitCode.UNREACHABLE, "")
    while time.monotonic() < deadline:
        last = advise(*words)
        if last[0] is code and text in last[1] and without not in last[1]:
            return last[1]
        time.sleep(0.5)
    raise AssertionError(f"not in time; last: {last}")


def addresses(quorum: KafkaQuorum) -> str:
    return ",".join(f"{host}:{PORT}" for host in quorum.hosts)


@pytest.fixture(scope="module")
def quorum(
    kafka: Any, tmp_path_factory: pytest.TempPathFactory, session_network: LoopbackNetwork
) -> Iterator[KafkaQuorum]:
    hosts = [session_network.host(FIRST_HOST + number) for number in range(3)]
    directory_ids = [random_id() for _ in hosts]
    root = tmp_path_factory.mktemp("kafka-advise")
    with KafkaQuorum(root, hosts, kafka.command, random_id(), directory_ids, more="") as started:
        started.format()
        for number in range(3):
            started.start(number)
        yield started


def test_three_controllers_one_killed_and_its_directory_formatted_again(
    quorum: KafkaQuorum, kafka: Any
) -> None:
    where = ("--bootstrap", addresses(quorum))
    entries = [f"{number}@{host}:{PORT}" for number, host in enumerate(quorum.hosts)]
    exact = ",".join(f"{e}:{d}" for e, d in zip(entries, quorum.directory_ids, strict=True))
    # Controllers describe their cluster only once they have replayed the metadata version.
    quiet = ("nothing to do", *where, "--id-map", exact)
    printed = until(AdviseExitCode.SAFE, *quiet, without="note:")
    assert "safe: 1 of 3 voters may be lost or replaced now" in printed
    assert f"cluster {quorum.cluster_id}" in printed

    code, printed = advise(*where, "--cluster-id", "other")
    assert code is AdviseExitCode.OTHER_CLUSTER
    assert f"belongs to cluster {quorum.cluster_id}" in printed

    swapped = f"1@{quorum.hosts[0]}:{PORT},0@{quorum.hosts[1]}:{PORT},{entries[2]}"
    code, printed = advise(*where, "--id-map", swapped)
    assert code is AdviseExitCode.ID_MAP_MISMATCH, printed

    view = asyncio.run(
        query(Target([Address(h, PORT) for h in quorum.hosts], {}, Security(), 60, 60))
    )
    dead = next(n for n in range(3) if n != view.confirmed_quorum.leader_id)
    quorum.kill(dead)
    printed = until(AdviseExitCode.AT_RISK, f"voter {dead}-{quorum.directory_ids[dead]}", *where)
    assert "cannot be reached" in printed

    quorum.replace_disk(dead)
    quorum.start(dead)
    old = f"{dead}-{quorum.directory_ids[dead]}"
    printed = until(AdviseExitCode.AT_RISK, "would replace a voter", *where, "--grace-s", "1")
    assert f"remove voter {old}, then add {dead}-" in printed


@contextmanager
def controller(kafka: Any, settings: Path, *format_arguments: str) -> Generator[None]:
    """A controller with these settings, formatted and started."""
    kafka.run(STORAGE, "format", "-t", random_id(), "-c", str(settings), *format_arguments)
    output = settings.parent / "controller.out"
    with output.open("wb") as out:
        command = kafka.command("kafka.Kafka", str(settings))
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield
    except AssertionError as error:
        error.add_note(output.read_text()[-2000:])
        raise
    finally:
        process.kill()
        process.wait()


def without_line(settings: Path, name: str, *more: str) -> Path:
    """The same file without a setting, and with others."""
    lines = [line for line in settings.read_text().splitlines() if not line.startswith(name)]
    settings.write_text("\n".join([*lines, *more, ""]))
    return settings


def static(root: Path, host: str) -> Path:
    voters = f"controller.quorum.voters=7@{host}:{PORT}"
    return without_line(write_settings(root, host), "controller.quorum.bootstrap", voters)


def combined(root: Path, host: str) -> Path:
    listener = f"BROKER://{host}:{TLS_PORT}"
    settings = without_line(
        without_line(write_settings(root, host), "process.roles"),
        "advertised.listeners",
        "process.roles=broker,controller",
        "inter.broker.listener.name=BROKER",
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,BROKER:PLAINTEXT",
    )
    return without_line(settings, "listeners", f"listeners=CONTROLLER://{host}:{PORT},{listener}")


def without_records(root: Path, host: str) -> Path:
    return write_settings(root, host, "metadata.max.idle.interval.ms=0\n")


@pytest.mark.parametrize(
    ("make", "format_arguments", "code", "text"),
    [
        (static, (), AdviseExitCode.STATIC_QUORUM, "kraft.version is 0"),
        (combined, ("-s",), AdviseExitCode.COMBINED_MODE, "process.roles=broker,controller"),
        (
            without_records,
            ("-s",),
            AdviseExitCode.UNCONFIRMED,
            "metadata.max.idle.interval.ms is 0",
        ),
    ],
)
def test_a_quorum_that_cannot_be_judged(
    make: Callable[[Path, str], Path],
    format_arguments: tuple[str, ...],
    code: AdviseExitCode,
    text: str,
    kafka: Any,
    tmp_path: Path,
    network: LoopbackNetwork,
) -> None:
    host = network.host(1)
    with controller(kafka, make(tmp_path, host), *format_arguments):
        until(code, text, "--bootstrap", f"{host}:{PORT}", "--confirm-s", "2")


def secured(root: Path, host: str, authority: trustme.CA) -> Path:
    """SASL with an authorizer on one listener, TLS with client certificates on another."""
    identity = authority.issue_cert(host)
    # Kafka reads keys in PKCS #8 alone.
    key = serialization.load_pem_private_key(identity.private_key_pem.bytes(), None)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    chain = b"".join(blob.bytes() for blob in identity.cert_chain_pems)
    (root / "server.pem").write_bytes(pem + chain)
    authority.cert_pem.write_to_path(str(root / "ca.pem"))
    tls = f"TLS://{host}:{TLS_PORT}"
    names = [f'user_{user}="word-{user}"' for user in ("admin", "stranger")]
    jaas = f'{PLAIN} username="admin" password="word-admin" {" ".join(names)};'
    more = (
        "listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT,TLS:SSL\n"
        "sasl.mechanism.controller.protocol=PLAIN\n"
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n"
        f"listener.name.controller.plain.sasl.jaas.config={jaas}\n"
        f"listener.name.controller.scram-sha-256.sasl.jaas.config={SCRAM};\n"
        f"listener.name.controller.scram-sha-512.sasl.jaas.config={SCRAM};\n"
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
        "super.users=User:admin;User:scram;User:O=advisor\n"
        "listener.name.tls.ssl.client.auth=required\n"
        "listener.name.tls.ssl.principal.mapping.rules=RULE:.*O=([^,]*).*/O=$1/\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={root}/server.pem\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={root}/ca.pem\n"
    )
    settings = write_settings(root, host, more)
    plain = f"CONTROLLER://{host}:{PORT}"
    settings = without_line(
        settings, "controller.listener", "controller.listener.names=CONTROLLER,TLS"
    )
    settings = without_line(settings, "listeners", f"listeners={plain},{tls}")
    return without_line(settings, "advertised.listeners", f"advertised.listeners={plain},{tls}")


def client_file(root: Path, *lines: str) -> tuple[str, str]:
    path = root / "client.properties"
    path.write_text("\n".join(lines))
    return "--command-config", str(path)


def sasl_file(root: Path, mechanism: str, user: str, password: str) -> tuple[str, str]:
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    jaas = f'{module} username="{user}" password="{password}";'
    return client_file(
        root,
        "security.protocol=SASL_PLAINTEXT",
        f"sasl.mechanism={mechanism}",
        f"sasl.jaas.config={jaas}",
    )


def test_credentials_certificates_and_permissions(
    kafka: Any, tmp_path: Path, network: LoopbackNetwork
) -> None:
    host = network.host(1)
    authority = trustme.CA()
    settings = secured(tmp_path, host, authority)
    scram = [f"{m}=[name=scram,password=word-scram]" for m in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
    words = ("--bootstrap", f"{host}:{PORT}")
    with controller(kafka, settings, "-s", "--add-scram", scram[0], "--add-scram", scram[1]):
        admin = sasl_file(tmp_path, "PLAIN", "admin", "word-admin")
        # The only voter cannot be lost; that it is confirmed is what counts here.
        until(AdviseExitCode.AT_RISK, "confirmed by a majority", *words, *admin)
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            given = sasl_file(tmp_path, mechanism, "scram", "word-scram")
            until(AdviseExitCode.AT_RISK, "confirmed by a majority", *words, *given)
            code, printed = advise(*words, *sasl_file(tmp_path, mechanism, "scram", "wrong"))
            assert code is AdviseExitCode.AUTHENTICATION_FAILED, printed
            assert "'scram'" in printed
        code, printed = advise(*words, *sasl_file(tmp_path, "PLAIN", "stranger", "word-stranger"))
        assert code is AdviseExitCode.ACCESS_DENIED, printed
        assert "Describe on Cluster" in printed
        code, printed = advise(*words)
        assert code is AdviseExitCode.UNREACHABLE, printed
        assert "SASL" in printed

        own = authority.issue_cert("advisor.example", organization_name="advisor")
        own.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "advisor.pem"))
        trusted = ("security.protocol=SSL", f"ssl.truststore.location={tmp_path}/ca.pem")
        words = ("--bootstrap", f"{host}:{TLS_PORT}")
        given = client_file(tmp_path, *trusted, f"ssl.keystore.location={tmp_path}/advisor.pem")
        code, printed = advise(*words, *given)
        assert code is AdviseExitCode.AT_RISK, printed
        code, printed = advise(*words, *client_file(tmp_path, *trusted))
        assert code is AdviseExitCode.TLS_FAILED, printed
        code, printed = advise(*words, *client_file(tmp_path, "security.protocol=SSL"))
        assert code is AdviseExitCode.TLS_FAILED, printed
        assert "is not trusted" in printed
        code, printed = advise(*words)
        assert code is AdviseExitCode.NOT_KAFKA, printed
        assert "the listener speaks TLS" in printed
