"""Mutual TLS between peers: whom the certificate at the other end names.

A certificate has to name a node of this node's cluster, and the node that the hello names. The
address is only advice (S6), so no host name is compared.
"""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass
from typing import Any, Protocol

from raftnode.tls.failures import Reason, cause_of, reason_of_failure
from raftnode.tls.files import TlsFiles
from raftnode.tls.handshakes import OnFailed
from raftnode.tls.names import PeerCertificate, peer_certificate
from raftnode.transport.hello import Identity

DIALLED = "dialled"
"""The listener under which failures of dialled connections are counted."""


class HasExtraInfo(Protocol):
    """A transport, or a connection that has one."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the transport knows."""
        ...


@dataclass(frozen=True, slots=True)
class PeerRefusal:
    """Why a peer's certificate does not do; `detail` is for people."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class PeerTls:
    """What both sides of the transport need to verify each other."""

    files: TlsFiles
    on_failed: OnFailed

    @property
    def is_permissive(self) -> bool:
        """Whether plain connections are accepted and made, too."""
        return self.files.rules.mode == "permissive"

    @property
    def client(self) -> ssl.SSLContext:
        """Of the next dialled connection."""
        return self.files.material.client

    def trusts(self, connection: HasExtraInfo) -> bool:
        """Whether the CAs that verified a connection are the current ones, or it is plain."""
        ssl_object = connection.get_extra_info("ssl_object")
        if ssl_object is None:
            return True
        return self.files.trusted_by(ssl_object.context) == self.files.material.trusted

    def judge(
        self,
        connection: HasExtraInfo | None,
        identity: Identity | None,
        *,
        listener: str,
        address: str,
    ) -> PeerRefusal | None:
        """Judge the other end by its certificate; a refusal is counted.

        Args:
            connection: to the other end.
            identity: that of its hello; None: it has not said hello, and the cluster decides.
            listener: under which a refusal is counted.
            address: of the other end.
        """
        refusal = self._refusal(connection, identity)
        if refusal is not None:
            self.on_failed(listener, refusal.reason, address, refusal.detail)
        return refusal

    def _refusal(
        self, connection: HasExtraInfo | None, identity: Identity | None
    ) -> PeerRefusal | None:
        if connection is None:
            return None  # it has ended
        if connection.get_extra_info("ssl_object") is None:
            if self.is_permissive:
                return None
            return PeerRefusal(Reason.PLAINTEXT, "the peer does not speak TLS")
        certificate = peer_certificate(connection)
        if certificate is None:
            return PeerRefusal(Reason.NO_CERTIFICATE, "the peer has no certificate")
        return self._refusal_of(certificate, identity)

    def _refusal_of(
        self, certificate: PeerCertificate, identity: Identity | None
    ) -> PeerRefusal | None:
        clusters = self.files.material.clusters
        has = ", ".join(map(str, certificate.nodes)) or "no node"
        own = [name for name in certificate.nodes if name.cluster_id in clusters]
        if not own:
            return PeerRefusal(
                Reason.WRONG_CLUSTER,
                f"the peer's certificate names {has}; this node belongs to cluster "
                f"{', '.join(sorted(clusters))}",
            )
        if identity is None:
            return None
        node_id = identity.key.node_id
        named = [name for name in own if name.node_id == node_id]
        if not named:
            return PeerRefusal(
                Reason.WRONG_NODE,
                f"the peer says that it is node {node_id}; its certificate names {has}",
            )
        if identity.cluster_id not in (None, *(name.cluster_id for name in named)):
            return PeerRefusal(
                Reason.WRONG_CLUSTER,
                f"the peer says that it belongs to cluster {identity.cluster_id}; its certificate "
                f"names {has}",
            )
        return None

    def dial_failed(self, address: str, error: BaseException) -> None:
        """Count a handshake that failed on a dialled connection; other failures do not count."""
        cause = cause_of(error)
        if isinstance(cause, ssl.SSLError):
            self.on_failed(DIALLED, reason_of_failure(cause), address, str(cause))

    def seconds_left(self, connection: HasExtraInfo) -> float | None:
        """How long both certificates of a connection are valid; None: it is plain."""
        certificate = peer_certificate(connection)
        if certificate is None or not certificate.not_after:
            return None
        theirs = ssl.cert_time_to_seconds(certificate.not_after)
        own = self.files.material.certificate.not_after.timestamp()
        return min(theirs, own) - time.time()
