"""Certificates, tokens and an access file for a quorum of processes; a test may replace each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from proofkit.certificates import SPIFFE, Authority, CertificateFiles, replace_file
from raftnode.client import Credentials

Mode = Literal["disabled", "permissive", "required"]

ADMIN = "admin"
"""The subject that `QuorumSecurity` grants all roles of clients."""


class QuorumSecurity:
    """What the nodes and clients of a `LocalQuorum` present.

    Each node has one certificate for both listeners; it has the node's identity and address.

    Args:
        root: where the files go.
        cluster_id: in the nodes' identities.
        peer_tls: the nodes' setting.
        api_tls: the nodes' setting.
        tokens: whether the nodes have an access file.
        client_certificates: whether the nodes ask clients for certificates.
    """

    def __init__(
        self,
        root: Path,
        cluster_id: str,
        *,
        peer_tls: Mode = "required",
        api_tls: Mode = "required",
        tokens: bool = True,
        client_certificates: bool = False,
    ) -> None:
        self.root = root
        self.cluster_id = cluster_id
        self.authority = Authority("nodes")
        self.clients = Authority("clients")
        self._peer_tls: Mode = peer_tls
        self._api_tls: Mode = api_tls
        self._tokens = tokens
        self._client_certificates = client_certificates
        self._subjects: dict[str, dict[str, object]] = {}
        root.mkdir(parents=True, exist_ok=True)
        replace_file(self.client_ca, self.clients.pem)
        if tokens:
            self.grant(ADMIN, "read", "write", "admin", "metrics")

    @property
    def client_ca(self) -> Path:
        """The CA of clients' certificates, as nodes read it."""
        return self.root / "client-ca.crt"

    @property
    def access_file(self) -> Path:
        """The nodes' access file."""
        return self.root / "access.json"

    def node_directory(self, node_id: int) -> Path:
        """Where the files of a node are."""
        return self.root / f"node-{node_id}"

    def issue_node(
        self, node_id: int, hosts: Sequence[str], also_trusted: Sequence[Authority] = ()
    ) -> CertificateFiles:
        """Replace a node's certificate."""
        return self.authority.issue(
            self.node_directory(node_id),
            hosts=hosts,
            uris=[f"{SPIFFE}/{self.cluster_id}/node/{node_id}"],
            common_name=f"node-{node_id}",
            also_trusted=also_trusted,
        )

    def settings(self, node_id: int, host: str) -> dict[str, str]:
        """Make a node's certificate; return its environment."""
        files = self.issue_node(node_id, [host, "localhost"])
        settings: dict[str, str] = {}
        if self._peer_tls != "disabled":
            settings |= {
                "RAFTNODE_PEER_TLS": self._peer_tls,
                "RAFTNODE_PEER_TLS_CERTIFICATE_FILE": str(files.certificate),
                "RAFTNODE_PEER_TLS_KEY_FILE": str(files.key),
                "RAFTNODE_PEER_TLS_CA_FILE": str(files.ca),
            }
        if self._api_tls != "disabled":
            settings |= {
                "RAFTNODE_API_TLS": self._api_tls,
                "RAFTNODE_API_TLS_CERTIFICATE_FILE": str(files.certificate),
                "RAFTNODE_API_TLS_KEY_FILE": str(files.key),
            }
            if self._client_certificates:
                settings["RAFTNODE_API_TLS_CA_FILE"] = str(self.client_ca)
        if self._tokens:
            settings["RAFTNODE_ACCESS_FILE"] = str(self.access_file)
        return settings

    def token_file(self, subject: str) -> Path:
        """The file of a subject's token."""
        return self.root / f"{subject}.token"

    def grant(self, subject: str, *roles: str, tokens: Sequence[str] = ()) -> Path:
        """Give a subject roles, and replace its token; returns the token's file.

        Args:
            subject: its name.
            roles: all that it may do.
            tokens: those that the nodes accept, of which the client presents the last; none: one
                of its own.
        """
        accepted = tokens or (f"token-of-{subject}-in-{self.cluster_id}",)
        hashes = [f"sha256:{hashlib.sha256(token.encode()).hexdigest()}" for token in accepted]
        self._subjects[subject] = {
            "name": subject,
            "token_hashes": hashes,
            "grants": [{"roles": roles}],
        }
        replace_file(
            self.access_file, json.dumps({"subjects": [*self._subjects.values()]}).encode()
        )
        replace_file(self.token_file(subject), accepted[-1].encode())
        return self.token_file(subject)

    def credentials(self, subject: str = ADMIN) -> Credentials:
        """What a client presents for a subject that `grant` made."""
        tls = self._api_tls != "disabled"
        ca_file = self.root / "ca.crt"
        if tls and not ca_file.exists():
            replace_file(ca_file, self.authority.pem)
        certificate = key = None
        if tls and self._client_certificates:
            files = self.clients.issue(
                self.root / f"client-{subject}",
                uris=[f"{SPIFFE}/{self.cluster_id}/client/{subject}"],
                common_name=subject,
            )
            certificate, key = files.certificate, files.key
        return Credentials(
            ca_file=ca_file if tls else None,
            certificate_file=certificate,
            key_file=key,
            token_file=self.token_file(subject) if self._tokens else None,
            plaintext_token=not tls and self._tokens,
        )
