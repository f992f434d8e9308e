"""Settings come from flags, environment, file and defaults, and are refused by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from raftnode.core.types import Endpoint
from raftnode.errors import ConfigurationError, ExitCode
from raftnode.settings import DOCUMENT_NAMES, NodeSettings, load_settings
from raftnode.settings.values import VoterAddress

pytestmark = pytest.mark.rule("P57")

NEEDED: dict[str, object] = {"node_id": 3, "log_dir": "/data"}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch):
    for name in list(os.environ):
        if name.upper().startswith("RAFTNODE_") or name in {
            "KRAFTQUORUM_HOSTS_FILE",
            "TERMINATION_LOG",
        }:
            monkeypatch.delenv(name)


def test_defaults_are_those_of_the_documents():
    settings = load_settings(NEEDED)
    assert settings.node_id == 3
    assert settings.log_dir == Path("/data")
    assert settings.peer_listen == Endpoint("::", 9093)
    assert settings.fetch_timeout_ms == 2000
    assert settings.bootstrap_servers == ()


def test_flags_win_over_environment_over_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "node.properties"
    file.write_text(
        "# a comment\n! another\n\nnode.id = 1\nlog_dir=/from/file\n"
        "controller.quorum.fetch.timeout.ms=3000\nRAFTNODE_ELECTION_TIMEOUT_MS=1500\n"
        "bootstrap.servers=a:1, b:2\n"
    )
    monkeypatch.setenv("RAFTNODE_LOG_DIR", "/from/env")
    monkeypatch.setenv("RAFTNODE_FETCH_TIMEOUT_MS", "4000")
    monkeypatch.setenv("RAFTNODE_SERVICE_HOST", "injected")
    monkeypatch.setenv("RAFTNODE_SERVICE_PORT", "tcp://injected:1")
    settings = load_settings({"fetch_timeout_ms": "5000", "node_id": None}, file=file)
    assert settings.node_id == 1
    assert settings.log_dir == Path("/from/env")
    assert settings.fetch_timeout_ms == 5000
    assert settings.election_timeout_ms == 1500
    assert settings.bootstrap_servers == (Endpoint("a", 1), Endpoint("b", 2))


@pytest.mark.parametrize(
    "variable",
    ["RAFTNODE_ELECTION_TIMEOUT_MSS", "raftnode_wat", "RAFTNODE_PORT", "RAFTNODE_API_PORT"],
)
def test_a_variable_that_is_no_setting_is_refused(monkeypatch: pytest.MonkeyPatch, variable: str):
    monkeypatch.setenv(variable, "1")
    with pytest.raises(ConfigurationError, match=f"the environment: unknown setting '{variable}'"):
        load_settings(NEEDED)


def test_a_variable_that_has_only_the_prefix_of_a_setting_is_like_none(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("RAFTNODE_BOGUS", "1")
    with pytest.raises(ConfigurationError, match=r"unknown setting 'RAFTNODE_BOGUS'$"):
        load_settings(NEEDED)


def test_a_variable_that_is_nearly_a_setting_is_told_which(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAFTNODE_ELECTION_TIMEOUT_MSS", "1")
    with pytest.raises(ConfigurationError, match=r"did you mean RAFTNODE_ELECTION_TIMEOUT_MS\?"):
        load_settings(NEEDED)


@pytest.mark.parametrize(
    "variable",
    [
        "RAFTNODE_SERVICE_HOST",
        "RAFTNODE_SERVICE_PORT_PEERS",
        "RAFTNODE_PORT",
        "RAFTNODE_PORT_9093_TCP",
        "RAFTNODE_PORT_9093_TCP_ADDR",
        "RAFTNODE_0_PORT_9093_TCP_PROTO",
        "RAFTNODE_BOOTSTRAP_SERVER",
    ],
)
def test_a_variable_of_kubernetes_or_of_the_commands_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, variable: str
):
    monkeypatch.setenv("RAFTNODE_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("RAFTNODE_0_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv(variable, "tcp://10.0.0.1:1")
    assert load_settings(NEEDED).node_id == 3


def test_environment_lists_and_other_names(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAFTNODE_BOOTSTRAP_SERVERS", "a:1,b:2")
    monkeypatch.setenv("KRAFTQUORUM_HOSTS_FILE", "/etc/quorum-hosts")
    monkeypatch.setenv("TERMINATION_LOG", "/tmp/why")
    settings = load_settings(NEEDED)
    assert settings.bootstrap_servers == (Endpoint("a", 1), Endpoint("b", 2))
    assert settings.hosts_file == Path("/etc/quorum-hosts")
    assert settings.termination_path == Path("/tmp/why")
    # The node's own variable is stronger, and the case of a name does not matter.
    monkeypatch.setenv("raftnode_hosts_file", "/etc/own-hosts")
    assert load_settings(NEEDED).hosts_file == Path("/etc/own-hosts")


@pytest.mark.without("settings.sources:load_settings", "_from_environment(os.environ)", "{}")
def test_only_a_nodes_start_reads_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAFTNODE_FETCH_TIMEOUT_MS", "4000")
    monkeypatch.setenv("HOSTS_FILE", "/etc/of-another-program")
    assert load_settings(NEEDED).fetch_timeout_ms == 4000
    assert load_settings(NEEDED).hosts_file is None
    assert NodeSettings.model_validate(NEEDED).fetch_timeout_ms == 2000


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"node_id": -1}, "node_id: Input should be greater than or equal to 0 (got -1)"),
        ({"node_id": None}, "node_id: Field required; set it by --node-id or RAFTNODE_NODE_ID"),
        ({"fetch_timeout_ms": "soon"}, "fetch_timeout_ms: Input should be a valid integer"),
        ({"peer_listen": "nowhere"}, "peer_listen: not an endpoint: 'nowhere'"),
        ({"bootstrap_servers": "a"}, "bootstrap_servers: not an endpoint: 'a'"),
        ({"log_level": "loud"}, "log_level: Input should be 'debug', 'info'"),
        ({"wat": 1}, "wat: Extra inputs are not permitted"),
        (
            {"election_timeout_ms": 100, "retry_backoff_ms": 80, "request_timeout_ms": 200},
            "election_timeout_ms (100) is too short for a request's round trip",
        ),
        (
            {"election_timeout_ms": 999},
            (
                "election_timeout_ms (999) is too short for a vote's request, so an election might "
                "never end: set it to at least half of request"
            ),
        ),
        ({"election_timeout_ms": 2001}, "(2001) exceeds fetch_timeout_ms (2000)"),
        ({"quorum_voters": "1@a:1,2@b:1,1@c:1"}, "quorum_voters: node id 1 is listed twice"),
        ({"quorum_voters": "1@a:1,2@a:1"}, "quorum_voters: a:1 is listed twice"),
        ({"quorum_voters": "a:1"}, "quorum_voters: not a voter: 'a:1'; expected id@host:port"),
        ({"quorum_voters": "-1@a:1"}, "quorum_voters: not a voter: '-1@a:1'"),
        ({"quorum_voters": "2147483648@a:1"}, "quorum_voters: not a voter: '2147483648@a:1'"),
        ({"quorum_voters": "1@a"}, "quorum_voters: not an endpoint: 'a'"),
        (
            {
                "fetch_timeout_ms": 900,
                "fetch_max_wait_ms": 451,
                "election_timeout_ms": 900,
                "request_timeout_ms": 1800,
            },
            "fetch_timeout_ms (900) must be at least twice fetch_max",
        ),
        ({"retry_backoff_max_ms": 10}, "retry_backoff_ms (20) exceeds retry_backoff_max_ms (10)"),
        (
            {"fetch_max_wait_ms": 1000},
            "fetch_max_wait_ms (1000) must be less than election_timeout",
        ),
        ({"stall_timeout_ms": 4999}, "stall_timeout_ms (4999) is too short"),
        ({"stall_timeout_ms": 1}, "Set at least 5000, or 0 to never stop the node for a stall"),
        (
            {"fetch_timeout_ms": 10_000, "stall_timeout_ms": 15_000},
            "a leader needs time to transfer leadership first (15000 ms, 1.5 times fetch_timeout_ms)",
        ),
        (
            {"fetch_timeout_ms": 60_000, "stall_timeout_ms": 29_999},
            "Set at least 30000, or 0",
        ),
        ({"peer_advertised": "0.0.0.0:9093"}, "peer_advertised (0.0.0.0:9093) is an address to"),
        ({"api_advertised": "[::]:9080"}, "api_advertised ([::]:9080) is an address to listen on"),
        ({"api_listen": "0.0.0.0:9093"}, "peer_listen and api_listen are the same address"),
        ({"api_listen": "[::1]:9093"}, "peer_listen and api_listen are the same address"),
        ({"metrics_listen": "0.0.0.0:9080"}, "api_listen and metrics_listen are the same address"),
        ({"admin_listen": "[::1]:9093"}, "peer_listen and admin_listen are the same address"),
        (
            {"admin_listen": "[::1]:9082", "metrics_listen": "0.0.0.0:9082"},
            "metrics_listen and admin_listen are the same address",
        ),
        ({"api_listen": "::1:9080"}, "write an IPv6 address in brackets"),
        ({"max_batch_bytes": 2048}, "record_max_bytes (1048576) exceeds max_batch_bytes (2048)"),
        ({"segment_bytes": 4096}, "max_batch_bytes (1048576) exceeds segment_bytes (4096)"),
        (
            {"peer_tls": "required"},
            (
                "peer_tls is required, and peer_tls_certificate_file and peer_tls_key_file and "
                "peer_tls_ca_file is not set: give a PEM file for it, or set peer_tls to disabled"
            ),
        ),
        (
            {
                "peer_tls": "permissive",
                "peer_tls_certificate_file": "tls.crt",
                "peer_tls_key_file": "tls.key",
            },
            "peer_tls is permissive, and peer_tls_ca_file is not set",
        ),
        (
            {"api_tls": "required", "api_tls_key_file": "tls.key"},
            "api_tls is required, and api_tls_certificate_file is not set",
        ),
        (
            {"api_tls": "permissive", "api_tls_certificate_file": "tls.crt"},
            "api_tls is permissive, and api_tls_key_file is not set: give a PEM file for it",
        ),
        (
            {"api_tls_client_certificates": "required", "access_file": "access.json"},
            "api_tls_client_certificates is required, and api_tls_ca_file is not set",
        ),
        (
            {"api_tls_client_certificates": "required", "api_tls_ca_file": "ca.crt"},
            "api_tls_client_certificates is required, and access_file is not set",
        ),
        (
            {"fetches_in_flight_max": 6},
            "fetches_in_flight_max: Input should be less than or equal to 5 (got 6)",
        ),
        (
            {"read_lease_clock_drift_percent": 51},
            "read_lease_clock_drift_percent: Input should be less than or equal to 50 (got 51)",
        ),
    ],
)
def test_wrong_settings_are_refused_by_name(values: dict[str, Any], says: str):
    with pytest.raises(ConfigurationError) as caught:
        load_settings({**NEEDED, **values})
    assert says in str(caught.value)
    assert caught.value.exit_code == ExitCode.USAGE


ALIASES = {
    "broker.id": ("5", "node_id", 5),
    "node.id": ("6", "node_id", 6),
    "metadata.log.dir": ("/meta", "log_dir", Path("/meta")),
    "log.dir": ("/log", "log_dir", Path("/log")),
    "bootstrap.servers": ("a:1", "bootstrap_servers", (Endpoint("a", 1),)),
    "controller.quorum.bootstrap.servers": ("b:2", "bootstrap_servers", (Endpoint("b", 2),)),
    "quorum.voters": ("1@a:1", "quorum_voters", (VoterAddress(1, Endpoint("a", 1)),)),
    "bootstrap.quorum.voters": ("2@b:2", "quorum_voters", (VoterAddress(2, Endpoint("b", 2)),)),
    "controller.quorum.voters": ("3@c:3", "quorum_voters", (VoterAddress(3, Endpoint("c", 3)),)),
    **{
        f"{prefix}quorum.{name}": (str(value), field, value)
        for name, field, value in (
            ("fetch.timeout.ms", "fetch_timeout_ms", 2100),
            ("election.timeout.ms", "election_timeout_ms", 1100),
            ("election.backoff.max.ms", "election_backoff_max_ms", 1200),
            ("request.timeout.ms", "request_timeout_ms", 1900),
            ("retry.backoff.ms", "retry_backoff_ms", 30),
            ("retry.backoff.max.ms", "retry_backoff_max_ms", 900),
            ("append.linger.ms", "append_linger_ms", 25),
        )
        for prefix in ("", "controller.")
    },
    "metadata.log.segment.bytes": ("104857600", "segment_bytes", 100 << 20),
    "log.segment.bytes": ("209715200", "segment_bytes", 200 << 20),
    "metadata.log.segment.ms": ("86400000", "segment_ms", 86_400_000),
    "log.roll.ms": ("43200000", "segment_ms", 43_200_000),
    "metadata.log.max.record.bytes.between.snapshots": (
        "1000000",
        "max_record_bytes_between_snapshots",
        1_000_000,
    ),
    "metadata.log.max.snapshot.interval.ms": ("7200000", "max_snapshot_interval_ms", 7_200_000),
    "metadata.max.retention.bytes": ("104857600", "log_retention_bytes", 100 << 20),
}
"""Names of the documents and of Kafka, written down here again: a text, our setting, its value."""
NAMES = "settings.names:names_of"


@pytest.mark.without(NAMES, "*DOCUMENT_NAMES.get(field, ()), ", "")
@pytest.mark.without(
    NAMES, "*DOCUMENT_NAMES.get(field, ()), ", "*DOCUMENT_NAMES.get(field, ())[:1], "
)
@pytest.mark.without(
    NAMES, "*DOCUMENT_NAMES.get(field, ()), ", "*DOCUMENT_NAMES.get(field, ())[1:], "
)
@pytest.mark.without("settings.values:VoterAddress.parse", "int(node_id), Endpoint", "9, Endpoint")
def test_every_name_of_the_documents_sets_its_setting(tmp_path: Path):
    taken = {}
    for name, (text, field, _) in ALIASES.items():
        file = tmp_path / "node.properties"
        file.write_text(f"{name}={text}\n")
        needed = {key: value for key, value in NEEDED.items() if key != field}
        try:
            taken[name] = getattr(load_settings(needed, file=file), field)
        except ConfigurationError as error:
            taken[name] = str(error)
    assert taken == {name: value for name, (_, _, value) in ALIASES.items()}
    assert {name for names in DOCUMENT_NAMES.values() for name in names} <= {
        *ALIASES,
        "log.preallocate",
    }


@pytest.mark.parametrize("name", ["log_preallocate", "log.preallocate", "RAFTNODE_LOG_PREALLOCATE"])
def test_preallocation_goes_by_kafkas_name_too_and_is_off(tmp_path: Path, name: str):
    assert not load_settings(NEEDED).log_preallocate
    file = tmp_path / "node.properties"
    file.write_text(f"{name}=true\n")
    assert load_settings(NEEDED, file=file).log_preallocate


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("node_id", ":1: expected name=value"),
        ("\nnode_ids=1", ":2: unknown setting 'node_ids'; did you mean node_id?"),
        ("node_id=1\nbroker.id=2", ":2: node_id is set twice"),
    ],
)
def test_properties_file_is_refused_by_line(tmp_path: Path, text: str, says: str):
    file = tmp_path / "node.properties"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load_settings(NEEDED, file=file)
    assert f"{file}{says}" in str(caught.value)


def test_file_that_cannot_be_read_is_named(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_settings(NEEDED, file=tmp_path / "missing")


def test_advertised_defaults_to_what_others_can_reach():
    settings = load_settings({**NEEDED, "peer_listen": "127.0.0.5:0", "api_listen": "0.0.0.0:1"})
    assert settings.peer_endpoint == Endpoint("127.0.0.5", 0)
    assert settings.api_endpoint.host not in {"0.0.0.0", ""}
    both = load_settings({**NEEDED, "peer_listen": "[fd00::7]:0", "api_listen": "[::]:0"})
    assert both.peer_endpoint == Endpoint("fd00::7", 0)
    assert both.api_listen == Endpoint("::", 0)
    assert both.api_endpoint.host not in {"::", ""}
    told = load_settings({**NEEDED, "peer_advertised": "node-3:9093"})
    assert told.peer_endpoint == Endpoint("node-3", 9093)


def test_voters_of_the_configuration_are_addresses_to_begin_with(tmp_path: Path):
    file = tmp_path / "node.properties"
    file.write_text("controller.quorum.voters=1@a:1, 2@b:2\nbootstrap.servers=c:3\n")
    settings = load_settings(NEEDED, file=file)
    assert [str(voter) for voter in settings.quorum_voters] == ["1@a:1", "2@b:2"]
    assert settings.first_addresses == (Endpoint("c", 3), Endpoint("a", 1), Endpoint("b", 2))


def test_every_setting_says_what_it_is():
    for name, field in NodeSettings.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name
        if name.endswith("_ms"):
            assert "illiseconds" in field.description, name


def test_document_names_belong_to_settings():
    assert set(DOCUMENT_NAMES) <= set(NodeSettings.model_fields)
    names = [name for names in DOCUMENT_NAMES.values() for name in names]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("fetch_timeout_ms", "stall_timeout_ms"),
    [(2000, 0), (2000, 5000), (10_000, 15_001), (60_000, 30_000), (60_000, 0)],
)
def test_a_stall_timeout_that_ends_no_healthy_node_is_taken(
    fetch_timeout_ms: int, stall_timeout_ms: int
) -> None:
    values = {"fetch_timeout_ms": fetch_timeout_ms, "stall_timeout_ms": stall_timeout_ms}
    assert load_settings({**NEEDED, **values}).stall_timeout_ms == stall_timeout_ms
