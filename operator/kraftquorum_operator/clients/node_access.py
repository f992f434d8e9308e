"""How the operator reaches a node: the CAs that it trusts, its certificate and its token.

The client of the quorum reads files. These are in memory, since the operator's file system is
read-only, and since the key of a quorum is to be on no disk.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from dataclasses import dataclass, field
from pathlib import Path

from raftnode.client import Credentials


@dataclass(frozen=True, slots=True)
class NodeAccess:
    """PEM of the trusted CAs, and of the operator's certificate with its key.

    Attributes:
        authorities: the trusted CAs; empty: plain connections.
        certificate: certificate and key; empty: the operator presents none.
        server_name: the name that the node's certificate must have; empty: the address.
        token: that the operator presents; empty: none.
    """

    authorities: bytes = field(default=b"", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    server_name: str = ""
    token: str = field(default="", repr=False)


class AccessFiles:
    """A `NodeAccess` as files, which are there as long as this object."""

    def __init__(self, access: NodeAccess) -> None:
        self._authorities = MemoryFile(access.authorities) if access.authorities else None
        self._certificate = MemoryFile(access.certificate) if access.certificate else None
        self._token = MemoryFile(access.token.encode()) if access.token else None
        self.credentials = Credentials(
            ca_file=self._authorities.path if self._authorities is not None else None,
            certificate_file=self._certificate.path if self._certificate is not None else None,
            token_file=self._token.path if self._token is not None else None,
            server_name=(access.server_name or None) if access.authorities else None,
            # Without TLS the token is all that tells the operator from others.
            plaintext_token=bool(access.token) and not access.authorities,
        )


class MemoryFile:
    """A file that is on no disk where the system allows that; it goes with this object."""

    def __init__(self, content: bytes) -> None:
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("credentials")
            self.path = Path(f"/proc/self/fd/{descriptor}")
            weakref.finalize(self, os.close, descriptor)
            os.write(descriptor, content)
            return
        descriptor, path = tempfile.mkstemp()
        self.path = Path(path)
        weakref.finalize(self, self.path.unlink, missing_ok=True)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
