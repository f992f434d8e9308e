"""The cluster's own certificate authority and the certificates it signs.

trustme makes keys and certificates. This module says for whom, and writes the files.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import trustme

from .paths import private_dir


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Files of a certificate and its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Pki:
    """Files that the control plane is started with.

    Attributes:
        ca: Certificate authority.
        server: For every listener on this cluster's loopback addresses.
        kubelet_client: By which the API server proves itself to the node.
        service_account_key: Signs service-account tokens.
    """

    ca: KeyPair
    server: KeyPair
    kubelet_client: KeyPair
    service_account_key: Path


def create_pki(directory: Path, addresses: Sequence[str]) -> Pki:
    """Create all keys and certificates in ``directory``.

    Args:
        directory: Created for the owner only.
        addresses: Names and IP addresses of the server certificate.
    """
    private_dir(directory)
    authority = trustme.CA(organization_name="kraftquorum-devcluster")
    server = authority.issue_cert(*addresses, common_name="server", organization_name="kraftquorum")
    # trustme marks the list of names critical, and a kubelet refuses a critical list without names.
    kubelet_client = authority.issue_cert(
        "apiserver", common_name="apiserver", organization_name="system:masters"
    )
    service_account = authority.issue_cert(
        common_name="service-account", key_type=trustme.KeyType.RSA
    )
    service_account_key = directory / "service-account.key"
    _write_key(service_account_key, service_account.private_key_pem)
    return Pki(
        ca=_write(directory, "ca", authority.cert_pem, authority.private_key_pem),
        server=_write(directory, "server", server.cert_chain_pems[0], server.private_key_pem),
        kubelet_client=_write(
            directory,
            "apiserver",
            kubelet_client.cert_chain_pems[0],
            kubelet_client.private_key_pem,
        ),
        service_account_key=service_account_key,
    )


def _write(directory: Path, name: str, certificate: trustme.Blob, key: trustme.Blob) -> KeyPair:
    pair = KeyPair(directory / f"{name}.crt", directory / f"{name}.key")
    certificate.write_to_path(pair.certificate)
    _write_key(pair.key, key)
    return pair


def _write_key(path: Path, key: trustme.Blob) -> None:
    path.touch(mode=0o600)
    key.write_to_path(path)
