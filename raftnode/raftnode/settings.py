"""The node's settings: one class, read from flags, the environment and a file.

What lives here: every setting with its unit, the reason for its default and what None or
0 mean, and the checks between settings. The reference page is made from this class.
Sources, strongest first: flags of `raftnode run`, `RAFTNODE_…` in the environment, the
properties file, the defaults.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, SettingsConfigDict

from raftnode.core.types import Endpoint
from raftnode.errors import ConfigurationError

ENV_PREFIX = "RAFTNODE_"
_WILDCARDS = frozenset({"0.0.0.0", "[::]", "::"})
_DAY_MS = 86_400_000

DOCUMENT_NAMES: dict[str, tuple[str, ...]] = {
    "node_id": ("node.id", "broker.id"),
    "log_dir": ("metadata.log.dir", "log.dir"),
    "bootstrap_servers": ("controller.quorum.bootstrap.servers", "bootstrap.servers"),
    "fetch_timeout_ms": ("controller.quorum.fetch.timeout.ms", "quorum.fetch.timeout.ms"),
    "election_timeout_ms": (
        "controller.quorum.election.timeout.ms",
        "quorum.election.timeout.ms",
    ),
    "election_backoff_max_ms": (
        "controller.quorum.election.backoff.max.ms",
        "quorum.election.backoff.max.ms",
    ),
    "request_timeout_ms": ("controller.quorum.request.timeout.ms", "quorum.request.timeout.ms"),
    "retry_backoff_ms": ("controller.quorum.retry.backoff.ms", "quorum.retry.backoff.ms"),
    "retry_backoff_max_ms": (
        "controller.quorum.retry.backoff.max.ms",
        "quorum.retry.backoff.max.ms",
    ),
    "append_linger_ms": ("controller.quorum.append.linger.ms", "quorum.append.linger.ms"),
    "segment_bytes": ("metadata.log.segment.bytes", "log.segment.bytes"),
}
"""P57: our setting to what the documents and Kafka call it; the properties file takes both."""


def _endpoint(value: object) -> object:
    return Endpoint.parse(value) if isinstance(value, str) else value


def _listen(value: object) -> object:
    if isinstance(value, str) and value.endswith(":0"):
        return Endpoint(value.removesuffix(":0"), 0)
    return _endpoint(value)


def _endpoints(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(Endpoint.parse(part.strip()) for part in value.split(",") if part.strip())


EndpointSetting = Annotated[Endpoint, BeforeValidator(_endpoint)]
ListenSetting = Annotated[Endpoint, BeforeValidator(_listen)]
EndpointsSetting = Annotated[tuple[Endpoint, ...], NoDecode, BeforeValidator(_endpoints)]


class NodeSettings(BaseSettings):
    """All settings of one node."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        enable_decoding=False,
    )

    # Who it is.
    node_id: int = Field(
        ge=0,
        le=2**31 - 1,
        description="The node's id. Must be the one that the directory was formatted with: an id "
        "names a node, the storage UUID its disk.",
    )
    log_dir: Path = Field(
        description="The data directory: log, vote, identity. Must exist; an empty one is given "
        "a fresh storage UUID and waits for form or join.",
    )

    # Where it is.
    peer_listen: ListenSetting = Field(
        default=Endpoint("0.0.0.0", 9093),
        description="Where peers connect to. Port 0: a free one, which is then advertised.",
    )
    peer_advertised: EndpointSetting | None = Field(
        default=None,
        description="What peers are told to connect to. None: the host of `peer_listen`, or this "
        "machine's name when that is 0.0.0.0.",
    )
    api_listen: ListenSetting = Field(
        default=Endpoint("0.0.0.0", 9080),
        description="Where clients, probes and Prometheus connect to. Port 0: a free one.",
    )
    api_advertised: EndpointSetting | None = Field(
        default=None,
        description="What clients are told to connect to when this node leads. None: as for "
        "`peer_advertised`.",
    )
    bootstrap_servers: EndpointsSetting = Field(
        default=(),
        description="Peer endpoints to find the quorum by, comma separated; advice, never "
        "identity. Empty: only those that the log and the latch name.",
    )
    hosts_file: Path | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "hosts_file", "RAFTNODE_HOSTS_FILE", "KRAFTQUORUM_HOSTS_FILE"
        ),
        description="Names in the form of /etc/hosts, asked before DNS and read again when "
        "changed. Also taken from KRAFTQUORUM_HOSTS_FILE. None: DNS only.",
    )

    # The protocol's times.
    fetch_timeout_ms: int = Field(
        default=2000,
        ge=50,
        le=_DAY_MS,
        description="Milliseconds without a good Fetch after which a voter stands for election; a "
        "leader without a majority's Fetches resigns after 1.5 times this. Kafka's default.",
    )
    election_timeout_ms: int = Field(
        default=1000,
        ge=50,
        le=_DAY_MS,
        description="Milliseconds that one round of asking for votes may take. Must leave room "
        "for a vote's round trip with its fsync, else elections never end. Kafka's default.",
    )
    election_backoff_max_ms: int = Field(
        default=1000,
        ge=1,
        le=_DAY_MS,
        description="The longest random wait after a lost election, milliseconds. Kafka's default.",
    )
    fetch_max_wait_ms: int = Field(
        default=500,
        ge=0,
        le=_DAY_MS,
        description="Milliseconds that the leader holds a Fetch that has nothing to bring. 0: "
        "answer at once, and keep followers busy asking. Kafka's default.",
    )
    request_timeout_ms: int = Field(
        default=2000,
        ge=10,
        le=_DAY_MS,
        description="Milliseconds until a request to a peer counts as failed, a Fetch's wait not "
        "counted. Kafka's default.",
    )
    retry_backoff_ms: int = Field(
        default=20,
        ge=1,
        le=_DAY_MS,
        description="The first wait after a failed request to a peer, milliseconds; doubles. "
        "Kafka's default.",
    )
    retry_backoff_max_ms: int = Field(
        default=1000,
        ge=1,
        le=_DAY_MS,
        description="The longest such wait, milliseconds. Kafka's client default.",
    )

    # Sizes and batching.
    append_linger_ms: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="Milliseconds that the leader waits for more records before it writes a "
        "batch. 0: never; batches fill by themselves while the last one is fsynced. Kafka waits "
        "25, which costs each lone write that long.",
    )
    max_batch_bytes: int = Field(
        default=1 << 20,
        ge=1024,
        le=8 << 20,
        description="The largest batch that the leader writes, bytes of keys and values; also "
        "the largest append. With all overhead it must fit into a frame between peers, 16 MiB.",
    )
    append_queue_bytes: int = Field(
        default=64 << 20,
        ge=1024,
        le=4 << 30,
        description="How many bytes may wait to be written; one more is refused with QUEUE_FULL, "
        "which tells clients sooner than a time-out.",
    )
    record_max_bytes: int = Field(
        default=1 << 20,
        ge=1,
        le=8 << 20,
        description="The largest record, bytes of key and value; larger ones are refused with "
        "RECORD_TOO_LARGE.",
    )
    segment_bytes: int = Field(
        default=64 << 20,
        ge=4096,
        le=2**31 - 1,
        description="Size at which a new segment file is begun, bytes. Recovery after a crash "
        "reads the last segment whole, so smaller ones start faster.",
    )

    # The disk.
    storage_check_interval_ms: int = Field(
        default=500,
        ge=10,
        le=60_000,
        description="Milliseconds between looks at whether the directory under the open files is "
        "still the same one (S4): the longest that a node acknowledges into a disk that is gone.",
    )

    disk_reserve_bytes: int = Field(
        default=64 << 20,
        ge=0,
        le=1 << 40,
        description="Free bytes on the disk below which a leader hands leadership over and, where "
        "it cannot, refuses writes with STORAGE_FULL; twice as much ends that. Room for the "
        "votes, epochs and voter changes that must still be written (S30). 0: never.",
    )

    # The process.
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least severe level that is logged."
    )
    log_format: Literal["json", "console"] = Field(
        default="json", description="`json` for machines, `console` for people."
    )
    shutdown_grace_ms: int = Field(
        default=5000,
        ge=0,
        le=600_000,
        description="Milliseconds that requests and the hand-over of leadership may take after "
        "SIGTERM. 0: stop at once. Keep it below the pod's terminationGracePeriodSeconds.",
    )
    termination_log: Path | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "termination_log", "RAFTNODE_TERMINATION_LOG", "TERMINATION_LOG"
        ),
        description="File for the reason of the end, as JSON, which Kubernetes shows. Also taken "
        "from TERMINATION_LOG. None: /dev/termination-log if it can be written to.",
    )

    def model_post_init(self, context: Any, /) -> None:
        """Check the settings against each other.

        Raises:
            ConfigurationError: naming the settings and what is allowed.
        """
        del context
        for ok, message in _cross_checks(self):
            if not ok:
                raise ConfigurationError(message)

    @property
    def peer_endpoint(self) -> Endpoint:
        """What peers are told; its port is 0 while a free one is still to be taken."""
        return self.peer_advertised or _reachable(self.peer_listen)

    @property
    def api_endpoint(self) -> Endpoint:
        """What clients are told; its port is 0 while a free one is still to be taken."""
        return self.api_advertised or _reachable(self.api_listen)

    @property
    def termination_path(self) -> Path | None:
        """Where to write why the process ended; None: nowhere."""
        if self.termination_log is not None:
            return self.termination_log
        default = Path("/dev/termination-log")
        return default if default.is_file() and os.access(default, os.W_OK) else None


def _reachable(listen: Endpoint) -> Endpoint:
    host = socket.gethostname() if listen.host in _WILDCARDS else listen.host
    return Endpoint(host, listen.port)


def _cross_checks(settings: NodeSettings) -> Iterable[tuple[bool, str]]:
    """Every rule between settings, with what to say when it is broken."""
    yield (
        settings.election_timeout_ms >= 2 * settings.retry_backoff_ms,
        (
            f"election_timeout_ms ({settings.election_timeout_ms}) is shorter than a request's "
            "round trip with one retry: at least twice retry_backoff_ms "
            f"({settings.retry_backoff_ms})"
        ),
    )
    yield (
        settings.fetch_timeout_ms >= 2 * settings.fetch_max_wait_ms,
        (
            f"fetch_timeout_ms ({settings.fetch_timeout_ms}) must be at least twice "
            f"fetch_max_wait_ms ({settings.fetch_max_wait_ms}): an idle leader answers only "
            "that often"
        ),
    )
    yield (
        settings.fetch_max_wait_ms < settings.election_timeout_ms,
        (
            f"fetch_max_wait_ms ({settings.fetch_max_wait_ms}) must be less than "
            f"election_timeout_ms ({settings.election_timeout_ms}): an idle Fetch waits so long, "
            "and a replica whose catch-up round takes an election time-out is never caught up"
        ),
    )
    yield (
        settings.retry_backoff_ms <= settings.retry_backoff_max_ms,
        (
            f"retry_backoff_ms ({settings.retry_backoff_ms}) exceeds retry_backoff_max_ms "
            f"({settings.retry_backoff_max_ms})"
        ),
    )
    for name in ("peer", "api"):
        advertised: Endpoint | None = getattr(settings, f"{name}_advertised")
        yield (
            advertised is None or advertised.host not in _WILDCARDS,
            (
                f"{name}_advertised ({advertised}) is an address to listen on, not one to connect "
                "to; name the host that others reach this node by"
            ),
        )
    peer, api = settings.peer_listen, settings.api_listen
    yield (
        peer.port != api.port or peer.port == 0 or peer.host != api.host,
        f"peer_listen and api_listen are the same address ({peer})",
    )
    for small, large in (
        ("record_max_bytes", "max_batch_bytes"),
        ("max_batch_bytes", "append_queue_bytes"),
        ("max_batch_bytes", "segment_bytes"),
    ):
        yield (
            getattr(settings, small) <= getattr(settings, large),
            f"{small} ({getattr(settings, small)}) exceeds {large} ({getattr(settings, large)})",
        )


def load_settings(
    flags: Mapping[str, object] | None = None, *, file: Path | None = None
) -> NodeSettings:
    """Put the settings together from all sources.

    Args:
        flags: settings by name, the strongest source; None values are not given.
        file: a properties file; None: none.

    Raises:
        ConfigurationError: naming each setting that is wrong, where it can be set, and
            what is allowed.
    """
    values: dict[str, object] = read_properties(file) if file is not None else {}
    environment = EnvSettingsSource(NodeSettings)()
    for name, value in environment.items():
        values[_field_of(name) or name] = value
    values |= {name: value for name, value in (flags or {}).items() if value is not None}
    try:
        return NodeSettings.model_validate(values)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False)
        raise ConfigurationError("; ".join(_describe(fault) for fault in faults)) from None


def read_properties(file: Path) -> dict[str, object]:
    """Read `name=value` lines; names as here, as in the environment, or as in the documents.

    Raises:
        ConfigurationError: the file cannot be read, or a line or a name is not understood.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file}: cannot be read: {error}") from error
    values: dict[str, object] = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        name, equals, value = text.partition("=")
        name = name.strip()
        field = _field_of(name)
        if not equals:
            raise ConfigurationError(f"{file}:{number}: expected name=value, got {text[:80]!r}")
        if field is None:
            raise ConfigurationError(f"{file}:{number}: unknown setting {name!r}{_hint(name)}")
        if field in values:
            raise ConfigurationError(f"{file}:{number}: {field} is set twice")
        values[field] = value.strip()
    return values


def _names_of(field: str) -> tuple[str, ...]:
    own = (field, f"{ENV_PREFIX}{field}".upper(), field.replace("_", "."))
    extra = {"hosts_file": ("KRAFTQUORUM_HOSTS_FILE",), "termination_log": ("TERMINATION_LOG",)}
    return (*own, *DOCUMENT_NAMES.get(field, ()), *extra.get(field, ()))


def _field_of(name: str) -> str | None:
    for field in NodeSettings.model_fields:
        if name in _names_of(field) or name.lower() == f"{ENV_PREFIX}{field}".lower():
            return field
    return None


def _hint(name: str) -> str:
    known = [other for field in NodeSettings.model_fields for other in _names_of(field)]
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _describe(fault: Any) -> str:
    name = str(fault["loc"][0]) if fault["loc"] else "settings"
    field = _field_of(name) or name
    message = str(fault["msg"]).removeprefix("Value error, ")
    got = "" if fault["type"] == "missing" else f" (got {fault['input']!r:.80})"
    return (
        f"{field}: {message}{got}; set it by --{field.replace('_', '-')} or "
        f"{ENV_PREFIX}{field.upper()}"
    )
