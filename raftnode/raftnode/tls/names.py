"""The identities in certificates: `spiffe://kraftquorum/cluster/<cluster id>/node/<node id>`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast
from urllib.parse import quote, unquote

_PREFIX = "spiffe://kraftquorum/cluster/"
_NODE_ID_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class NodeName:
    """The node that a certificate names."""

    cluster_id: str
    node_id: int

    def __str__(self) -> str:
        return f"{_PREFIX}{quote(self.cluster_id, safe='')}/node/{self.node_id}"


def node_names(uri_names: Iterable[str]) -> tuple[NodeName, ...]:
    """The nodes among the URIs of a certificate; other URIs are skipped."""
    names: list[NodeName] = []
    for uri in uri_names:
        if not uri.startswith(_PREFIX):
            continue
        match uri.removeprefix(_PREFIX).split("/"):
            case [cluster, "node", number] if (
                number.isascii() and number.isdecimal() and int(number) <= _NODE_ID_MAX
            ):
                names.append(NodeName(unquote(cluster), int(number)))
            case _:
                continue
    return tuple(names)


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """What the verified certificate of the other end of a connection says.

    Attributes:
        uri_names: its subject alternative names of type URI.
        dns_names: those of type DNS.
        common_name: of its subject; empty: it has none.
        not_after: the text of its end, as `ssl` gives it; `ssl.cert_time_to_seconds` reads it.
    """

    uri_names: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()
    common_name: str = ""
    not_after: str = ""

    @property
    def nodes(self) -> tuple[NodeName, ...]:
        """The nodes that it names."""
        return node_names(self.uri_names)


class _Connection(Protocol):
    """`asyncio.BaseTransport`, or what has its method."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the transport knows."""
        ...


def peer_certificate(transport: _Connection | None) -> PeerCertificate | None:
    """What the certificate of a connection's other end says.

    A certificate is there only if it was verified against a CA of this node.

    Args:
        transport: of the connection, such as `request.transport`.

    Returns:
        None: the connection is plain, or the other end gave no certificate.
    """
    ssl_object = transport.get_extra_info("ssl_object") if transport is not None else None
    decoded = ssl_object.getpeercert() if ssl_object is not None else None
    return certificate_of(decoded) if decoded else None


def certificate_of(decoded: Mapping[str, Any]) -> PeerCertificate:
    """Read a certificate in the form of `ssl.SSLObject.getpeercert`."""
    names = cast("tuple[tuple[str, str], ...]", decoded.get("subjectAltName", ()))
    subject = cast("tuple[tuple[tuple[str, str], ...], ...]", decoded.get("subject", ()))
    common = [value for part in subject for kind, value in part if kind == "commonName"]
    return PeerCertificate(
        uri_names=tuple(value for kind, value in names if kind == "URI"),
        dns_names=tuple(value for kind, value in names if kind == "DNS"),
        common_name=common[-1] if common else "",
        not_after=str(decoded.get("notAfter", "")),
    )
