"""Whether nodes would accept a certificate: a handshake with itself, in memory."""

from __future__ import annotations

import ssl

from kraftquorum_operator.clients.node_access import MemoryFile
from raftnode.tls.self_check import shake_hands


def why_refused(authorities: bytes, pair: bytes) -> str | None:
    """Why peers that trust these CAs would refuse a certificate; None: they accept it.

    Args:
        authorities: PEM of the CAs.
        pair: PEM of the certificate, of those between it and a CA, and of its key.
    """
    file = MemoryFile(pair)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False  # nodes know each other by the URI
    try:
        for context in (server, client):
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            context.load_cert_chain(file.path, password=lambda: "")
            context.load_verify_locations(cadata=authorities.decode("ascii", "ignore"))
        server.verify_mode = ssl.CERT_REQUIRED
        shake_hands(server, client)
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", None) or error.reason or str(error)
        return str(reason).lower().replace("_", " ")
    return None
