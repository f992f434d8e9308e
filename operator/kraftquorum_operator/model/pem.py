"""Facts of PEM text: CAs, certificates with their keys. Pure, and no key leaves this module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization

from kraftquorum_operator.model.certificates import Authority, Leaf


class PemError(ValueError):
    """PEM text that cannot be used; the message says why, and holds nothing of a key."""


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of the DER, in lower-case hex."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def load_certificates(pem: bytes) -> list[x509.Certificate]:
    """All certificates of a text, in order.

    Raises:
        PemError: it has none, or one that cannot be read.
    """
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise PemError("it has no PEM certificate that can be read") from error


def to_pem(certificate: x509.Certificate) -> bytes:
    """A certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def read_authority(certificate: x509.Certificate) -> Authority:
    """Facts of a CA's certificate.

    Raises:
        PemError: it is no CA's.
    """
    if not is_authority(certificate):
        raise PemError(f"{certificate.subject.rfc4514_string() or 'a certificate'} is no CA")
    return Authority(
        fingerprint(certificate),
        int(certificate.not_valid_before_utc.timestamp()),
        int(certificate.not_valid_after_utc.timestamp()),
    )


def is_authority(certificate: x509.Certificate) -> bool:
    """Whether a certificate may sign others."""
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except (x509.ExtensionNotFound, ValueError):
        return False
    return constraints.value.ca


def read_leaf(chain: bytes, key: bytes, authorities: Sequence[x509.Certificate]) -> Leaf:
    """Facts of a certificate, once its key belongs to it.

    Args:
        chain: the certificate, and the intermediate ones after it.
        key: its private key.
        authorities: the CAs beside it.

    Raises:
        PemError: either cannot be read, or they do not belong together.
    """
    certificates = load_certificates(chain)
    leaf = certificates[0]
    if public_bytes(leaf) != _public_bytes_of_key(key):
        raise PemError("the key does not belong to the certificate")
    names = _names(leaf)
    return Leaf(
        fingerprint(leaf),
        _issuer(certificates, authorities),
        int(leaf.not_valid_before_utc.timestamp()),
        int(leaf.not_valid_after_utc.timestamp()),
        uris=frozenset(names.get_values_for_type(x509.UniformResourceIdentifier) if names else ()),
        hosts=frozenset(
            [
                *names.get_values_for_type(x509.DNSName),
                *map(str, names.get_values_for_type(x509.IPAddress)),
            ]
            if names
            else ()
        ),
    )


def public_bytes(certificate: x509.Certificate) -> bytes:
    """The public key of a certificate."""
    return certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _public_bytes_of_key(pem: bytes) -> bytes:
    try:
        # The check of an RSA key takes 30 ms and more, in which the operator does nothing else. A
        # handshake shows whether the key works.
        key = serialization.load_pem_private_key(
            pem, password=None, unsafe_skip_rsa_key_validation=True
        )
    except TypeError as error:
        raise PemError("the key has a password; give a key without one") from error
    except (ValueError, RuntimeError) as error:
        raise PemError("the key cannot be read: it is no PEM private key") from error
    return key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _names(leaf: x509.Certificate) -> x509.SubjectAlternativeName | None:
    try:
        return leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return None


def _issuer(chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]) -> str:
    """The trusted CA at the end of a chain; empty: there is none.

    A CA that was renewed with its key may stand there twice: the one that ends last.
    """
    current = chain[0]
    for intermediate in chain[1:]:
        if not _signed(current, intermediate):
            break
        current = intermediate
    signers = [
        authority
        for authority in authorities
        if fingerprint(authority) == fingerprint(current) or _signed(current, authority)
    ]
    last = max(signers, key=lambda authority: authority.not_valid_after_utc, default=None)
    return "" if last is None else fingerprint(last)


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def read_bundle(pem: bytes) -> tuple[list[x509.Certificate], tuple[Authority, ...]]:
    """The CAs of a text, each once.

    Raises:
        PemError: it has none, or a certificate that is no CA's.
    """
    by_fingerprint = {fingerprint(part): part for part in load_certificates(pem)}
    certificates = list(by_fingerprint.values())
    return certificates, tuple(read_authority(part) for part in certificates)


def read_leaves(
    data: Mapping[str, bytes], pairs: Mapping[str, str], authorities: Sequence[x509.Certificate]
) -> tuple[dict[str, Leaf], list[str]]:
    """The certificates of a Secret, and what is wrong with the others.

    Args:
        data: of the Secret.
        pairs: by the name of a certificate: what its two keys in the Secret begin with.
        authorities: the CAs beside them.
    """
    leaves: dict[str, Leaf] = {}
    faults: list[str] = []
    for name, stem in pairs.items():
        chain, key = data.get(f"{stem}.crt"), data.get(f"{stem}.key")
        if chain is None or key is None:
            missing = "crt" if chain is None else "key"
            faults.append(f"key {stem}.{missing} is missing")
            continue
        try:
            leaves[name] = read_leaf(chain, key, authorities)
        except PemError as error:
            faults.append(f"{stem}.crt: {error}")
    return leaves, list(dict.fromkeys(faults))
