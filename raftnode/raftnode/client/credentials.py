"""What a client presents to the nodes, and whom it trusts: names of files, never what is in them.

`credential_files` reads the files. A `Credentials` can be printed, compared, pickled and logged.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Credentials:
    """The files of a client's TLS and token, read again whenever they change.

    Attributes:
        ca_file: PEM, the CAs that sign the nodes' certificates, several during a rotation. With
            it the client uses TLS and nothing else.
        certificate_file: PEM, the client's certificate and the intermediate ones after it.
        key_file: PEM, its key, without a password; None: it is in `certificate_file`.
        token_file: a bearer token, on one line.
        system_ca: use TLS and trust the CAs of the system; with `ca_file`, those too.
        server_name: the name that a node's certificate must have; None: the host that is asked.
            For a forwarded port or an address that is in no certificate.
        plaintext_token: send the token without TLS too, where any machine on the way can read it.
            For a loopback address, or a mesh that encrypts.

    Raises:
        ValueError: fields that do not go together.
    """

    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    token_file: Path | None = None
    system_ca: bool = False
    server_name: str | None = None
    plaintext_token: bool = False

    def __post_init__(self) -> None:
        if self.key_file is not None and self.certificate_file is None:
            raise ValueError("key_file is given without certificate_file; give both")
        if self.uses_tls:
            return
        if self.certificate_file is not None:
            raise ValueError(
                "certificate_file is given without ca_file: a client certificate needs TLS; give "
                "ca_file too, or https:// addresses to trust the system's CAs"
            )
        if self.server_name is not None:
            raise ValueError(
                "server_name is given without ca_file: only TLS verifies a name; give ca_file too"
            )
        if self.token_file is not None and not self.plaintext_token:
            raise ValueError(
                "token_file is given without ca_file: the token would travel in plain text; give "
                "ca_file too, or allow it with plaintext_token"
            )

    @property
    def uses_tls(self) -> bool:
        """Whether every connection is TLS."""
        return self.ca_file is not None or self.system_ca


NO_CREDENTIALS = Credentials()
"""Plain connections, without a certificate and without a token."""
