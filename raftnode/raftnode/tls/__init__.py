"""TLS of a node's listeners and of its connections to peers.

- `names`: the identities in certificates, and what a connection's certificate says;
- `certificates`: reads certificates from PEM;
- `paths`: when the time of a certificate, or of the CA above it, is over;
- `material`: certificate, key and CA of a listener from their files, checked, as TLS contexts;
- `self_check`: a handshake of a certificate with itself, as its peers would verify it;
- `files`: watches the files, and keeps the last good material;
- `expiry`: logs what expires soon or has expired;
- `handshakes`: accepts connections, TLS and plain, with a few handshakes in each turn of the loop;
- `failures`: why a handshake failed, as a word for metrics and a sentence for people.

A listener has one `TlsFiles`, whose `material` is that of new connections.
"""

from __future__ import annotations

from raftnode.tls.names import NodeName, PeerCertificate, peer_certificate

__all__ = ["NodeName", "PeerCertificate", "peer_certificate"]
