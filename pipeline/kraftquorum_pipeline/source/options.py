"""The options of the data source: names, defaults, meaning, and checks.

Names are as in Spark (`maxOffsetsPerTrigger`), in upper or lower case. The reference page is
made from `OPTIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, cast

from kraftquorum_pipeline.credential_options import CREDENTIALS
from kraftquorum_pipeline.errors import OptionError
from kraftquorum_pipeline.remote import path_of
from kraftquorum_pipeline.source.rows import Shape
from raftnode.client import Credentials
from raftnode.client.servers import CredentialOptions, parse_servers
from raftnode.core.types import Endpoint
from raftnode.errors import ConfigurationError
from raftnode.logfiles import check_cluster_id

UpTo = Literal["committed", "end"]
ReadFrom = Literal["followers", "leader", "any"]


class Option(NamedTuple):
    """One option: its default as text (None: there is none), and its description."""

    default: str | None
    meaning: str


OPTIONS: dict[str, Option] = {
    "path": Option(
        None,
        "Files: the data directory of a replica, or a directory that holds several of them; "
        "a path, or a URI (`s3://bucket/prefix`, `gs://`, `abfs://`, `hdfs://`, "
        "`file://`).",
    ),
    "bootstrapServers": Option(
        None,
        "Nodes: `host:port,…`, API endpoints of the quorum, or `https://host:port,…`. Either this "
        "or `path`.",
    ),
    "clusterId": Option(None, "Refuse any other cluster. Default: the one that is found."),
    "startingOffset": Option(
        "earliest",
        "First offset: a number, or `earliest`: the log's start, and if the log was trimmed, "
        "the state before it. A stream's checkpoint takes precedence.",
    ),
    "endingOffset": Option("latest", "Batch only: the offset after the last one, or `latest`."),
    "upTo": Option(
        "committed",
        "Files: `committed`, as far as a majority of the voters' directories proves it, or "
        "`end`: all undamaged records, of which the last may not be committed.",
    ),
    "readFrom": Option(
        "followers",
        "Nodes: `followers` (the leader only if no other node answers), `leader` or `any`.",
    ),
    "maxOffsetsPerTrigger": Option(
        None, "Streams: largest number of offsets in a micro-batch. Default: no limit."
    ),
    "partitionBytes": Option(
        str(32 << 20), "Files: approximate bytes that one task reads; cut at batches of the log."
    ),
    "partitionOffsets": Option("50000", "Nodes: number of offsets that one task reads."),
    "maxBytesPerRequest": Option(
        str(1 << 20),
        "Nodes: bytes of records in one answer; a node returns at most 1 MiB.",
    ),
    "onCorrupt": Option(
        "fail",
        "`fail`, or `skip`: an unreadable record becomes a row of kind `corrupt` and is counted.",
    ),
    "keyFormat": Option("binary", "`binary`, or `utf8`: keys are strings."),
    "valueFormat": Option(
        "binary", "`binary`, `utf8`: values are strings, or `json`: strings that hold JSON."
    ),
    "timeoutMs": Option("30000", "Nodes: longest time for a read, retries included."),
    "attemptTimeoutMs": Option("5000", "Nodes: longest time for one node before another is tried."),
    "connectTimeoutMs": Option("1000", "Nodes: longest time to open a connection."),
    "retryBackoffMs": Option("20", "Nodes: the first wait after no node could answer; it doubles."),
    "retryBackoffMaxMs": Option("1000", "Nodes: the longest wait after no node could answer."),
    "hostsFile": Option(
        None, "Nodes: a file in the format of /etc/hosts, in which names are looked up before DNS."
    ),
    "caFile": Option(
        None,
        "Nodes: PEM, the CAs that sign the nodes' certificates. With it, connections are TLS. "
        "Like all files here, at the same path on the driver and on every executor.",
    ),
    "certificateFile": Option(None, "Nodes: PEM, the client certificate."),
    "keyFile": Option(
        None,
        "Nodes: PEM, its key, without a password. Default: it is in the certificate's file.",
    ),
    "tokenFile": Option(None, "Nodes: a bearer token, on one line. Needs TLS."),
    "serverName": Option(
        None,
        "Nodes: the name that their certificates must have. Default: the host that is asked.",
    ),
    "plaintextToken": Option("false", "Nodes: `true` sends the token without TLS too."),
}


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How to ask nodes; see `raftnode.client.QuorumClient`. Times in milliseconds."""

    endpoints: tuple[Endpoint, ...]
    read_from: ReadFrom
    request_bytes: int
    timeout_ms: int
    attempt_timeout_ms: int
    connect_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    hosts_file: Path | None
    credentials: Credentials

    @property
    def source(self) -> str:
        """The source that errors name."""
        return ",".join(map(str, self.endpoints))


@dataclass(frozen=True, slots=True)
class Options:
    """The checked options of a user.

    Attributes:
        path: the path of the files; None: the source reads from nodes.
        client: how to ask nodes; None: the source reads files.
        start: the first offset; None: the earliest.
        end: one past the last offset; None: the latest.
    """

    path: Path | None
    client: ClientOptions | None
    cluster_id: str | None
    start: int | None
    end: int | None
    up_to: UpTo
    offsets_per_trigger: int | None
    partition_bytes: int
    partition_offsets: int
    skip_corrupt: bool
    key_text: bool
    value_text: bool
    value_json: bool

    @property
    def source(self) -> str:
        """The source that errors name."""
        return str(self.path) if self.client is None else self.client.source

    def shape(self, cluster_id: str | None) -> Shape:
        """Return the shape of the rows of a cluster."""
        return Shape(cluster_id, self.key_text, self.value_text, self.value_json, self.skip_corrupt)


def parse_options(given: Mapping[str, str]) -> Options:
    """Check options.

    Raises:
        OptionError: names the option and what is allowed.
    """
    values = _Values({name.lower(): str(value).strip() for name, value in given.items()})
    values.refuse_unknown()
    servers, path = values.text("bootstrapServers"), values.text("path")
    if (servers is None) == (path is None):
        raise OptionError("give either `path` (files) or `bootstrapServers` (nodes)")
    value_format = values.choice("valueFormat", ("binary", "utf8", "json"))
    cluster_id = values.text("clusterId")
    if cluster_id is not None:
        try:
            check_cluster_id(cluster_id)
        except ConfigurationError as error:
            raise OptionError(f"clusterId: {error}") from None
    start, end = (
        values.offset("startingOffset", "earliest"),
        values.offset("endingOffset", "latest"),
    )
    if start is not None and end is not None and end < start:
        raise OptionError(f"endingOffset {end} is below startingOffset {start}; give a higher one")
    return Options(
        path=None if path is None else path_of(path),
        client=None if servers is None else _client(values, servers),
        cluster_id=cluster_id,
        start=start,
        end=end,
        up_to=cast("UpTo", values.choice("upTo", ("committed", "end"))),
        offsets_per_trigger=values.maybe_number("maxOffsetsPerTrigger", 1),
        partition_bytes=values.number("partitionBytes", 1 << 16),
        partition_offsets=values.number("partitionOffsets", 1),
        skip_corrupt=values.choice("onCorrupt", ("fail", "skip")) == "skip",
        key_text=values.choice("keyFormat", ("binary", "utf8")) == "utf8",
        value_text=value_format != "binary",
        value_json=value_format == "json",
    )


def _client(values: _Values, servers: str) -> ClientOptions:
    try:
        endpoints, credentials = parse_servers(servers, _credentials(values))
    except ValueError as error:
        raise OptionError(_named(str(error))) from None
    hosts = values.text("hostsFile")
    return ClientOptions(
        endpoints=endpoints,
        read_from=cast("ReadFrom", values.choice("readFrom", ("followers", "leader", "any"))),
        request_bytes=values.number("maxBytesPerRequest", 1, 16 << 20),
        timeout_ms=values.number("timeoutMs", 1),
        attempt_timeout_ms=values.number("attemptTimeoutMs", 1),
        connect_timeout_ms=values.number("connectTimeoutMs", 1),
        retry_backoff_ms=values.number("retryBackoffMs", 1),
        retry_backoff_max_ms=values.number("retryBackoffMaxMs", 1),
        hosts_file=None if hosts is None else Path(hosts),
        credentials=credentials,
    )


def _credentials(values: _Values) -> CredentialOptions:
    def file(name: str) -> Path | None:
        text = values.text(name)
        return None if text is None else Path(text)

    return CredentialOptions(
        ca_file=file("caFile"),
        certificate_file=file("certificateFile"),
        key_file=file("keyFile"),
        token_file=file("tokenFile"),
        server_name=values.text("serverName"),
        plaintext_token=values.choice("plaintextToken", ("false", "true")) == "true",
    )


def _named(message: str) -> str:
    """Name the options as they are given; an error about none of them is about the servers."""
    named = message
    for field, option in CREDENTIALS.items():
        named = named.replace(field, option)
    return f"bootstrapServers: {message}" if named == message else named


class _Values:
    """Options by their lower-case names."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def refuse_unknown(self) -> None:
        known = {name.lower() for name in OPTIONS}
        for name in self._given:
            if name not in known:
                raise OptionError(f"unknown option {name}; the options are {', '.join(OPTIONS)}")

    def text(self, name: str) -> str | None:
        return self._given.get(name.lower()) or OPTIONS[name].default

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        value = (self.text(name) or "").lower()
        if value not in allowed:
            raise OptionError(f"{name} is {value!r}; allowed are {', '.join(allowed)}")
        return value

    def number(self, name: str, least: int, most: int = (1 << 63) - 1) -> int:
        number = self.maybe_number(name, least, most)
        assert number is not None, name  # noqa: S101 - a default that is missing in OPTIONS
        return number

    def maybe_number(self, name: str, least: int, most: int = (1 << 63) - 1) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not value.isascii() or not value.isdigit() or not least <= int(value) <= most:
            raise OptionError(
                f"{name} is {value!r}; expected a whole number from {least} to {most}"
            )
        return int(value)

    def offset(self, name: str, word: str) -> int | None:
        value = self.text(name) or word
        if value.lower() == word:
            return None
        if not value.isascii() or not value.isdigit() or len(value) > 19:
            raise OptionError(f"{name} is {value!r}; expected {word} or an offset")
        return int(value)
