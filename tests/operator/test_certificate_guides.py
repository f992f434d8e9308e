"""The commands of the pages on certificates, run as a reader runs them, on real nodes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509

from guidelib.reader import ClusterReader
from proofkit.loopback import LoopbackNetwork

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]


@pytest.fixture
def open_page(krq, tmp_path: Path, network: LoopbackNetwork) -> Callable[[str], ClusterReader]:
    """Opens a how-to for a reader of the test's namespace."""

    def open_page(page: str) -> ClusterReader:
        return ClusterReader(
            f"howto/{page}", tmp_path, krq.cluster, krq.namespace, forwarded=network.host(1)
        )

    return open_page


def secret(krq, name: str) -> dict[str, bytes]:
    data = json.loads(krq.kubectl("get", "secret", name, "-o", "json"))["data"]
    return {key: base64.b64decode(value) for key, value in data.items()}


def uids(krq) -> list[str]:
    return [pod["metadata"]["uid"] for pod in krq.list("pods")]


def changed(krq, before: dict[str, bytes], *, ca: bool) -> Callable[[], bool]:
    """Whether every node has another certificate, and one CA is trusted: another one or not."""

    def holds() -> bool:
        now = secret(krq, "demo-node-tls")
        leaves = [key for key in before if key.endswith(".crt") and key != "ca.crt"]
        return (
            all(now[key] != before[key] for key in leaves)
            and now["ca.crt"].count(b"BEGIN") == 1
            and (now["ca.crt"] != before["ca.crt"]) == ca
        )

    return holds


def test_certificates_are_made_checked_and_renewed_as_the_page_says(
    krq, operators, tmp_path: Path, open_page: Callable[[str], ClusterReader]
) -> None:
    operators.start()
    reader = open_page("bring-your-own-certificates.md")
    reader.run("new", "ca", "leaves", "secret")
    assert "ca.key" not in secret(krq, "demo-certificates")
    krq.kubectl("apply", "-f", "-", stdin=reader.example("resource"))
    krq.ready(3)
    files = {path.name: path.read_bytes() for path in (tmp_path / "secret").iterdir()}
    mounted = secret(krq, "demo-node-tls")
    assert mounted["demo-2.key"] == files["demo-2.key"]
    (uri,) = (
        x509.load_pem_x509_certificate(files["operator.crt"])
        .extensions.get_extension_for_class(x509.SubjectAlternativeName)
        .value.get_values_for_type(x509.UniformResourceIdentifier)
    )
    assert uri == f"spiffe://kraftquorum/cluster/{krq.status()['clusterId']}/operator"
    expiry, _, problem = reader.run("check").partition("\n")
    assert json.loads(expiry).keys() == {"level", "nextExpiry", "caExpiry"}
    assert problem == ""
    open_page("rotate-certificates.md").run("node")
    # A file of another pod: the condition names the field, the Secret and its key.
    pods = uids(krq)
    (tmp_path / "secret" / "demo-0.key").write_bytes(files["demo-1.key"])
    reader.run("secret")
    said = (
        "InvalidSecret: spec.tls.secretName: Secret demo-certificates: demo-0.crt: the key does not "
        "belong to the certificate"
    )
    krq.until("refused", lambda: said in reader.run("check"))
    assert secret(krq, "demo-node-tls") == mounted
    # Renewed, and the fault is gone; then with another CA in one write.
    reader.run("existing", "leaves", "secret")
    krq.until("renewed", changed(krq, mounted, ca=False))
    krq.until("well", lambda: "InvalidSecret" not in reader.run("check"))
    mounted = secret(krq, "demo-node-tls")
    reader.run("existing", "ca", "leaves", "secret")
    krq.until("another CA", changed(krq, mounted, ca=True))
    assert uids(krq) == pods


def test_certificates_and_tokens_are_rotated_as_the_page_says(
    krq, operators, tmp_path: Path, open_page: Callable[[str], ClusterReader]
) -> None:
    operators.start()
    krq.kubectl("create", "secret", "generic", "shop-token", "--from-literal=token=" + "s" * 32)
    client = {
        "name": "shop",
        "roles": ["read"],
        "tokenSecret": {"name": "shop-token", "key": "token"},
    }
    krq.apply(voters=3, tls={"mode": "Managed"}, access={"clients": [client]})
    krq.ready(3)
    reader, pods = open_page("rotate-certificates.md"), uids(krq)
    before = secret(krq, "demo-node-tls")
    reader.run("renew")
    krq.until("renewed", changed(krq, before, ca=False))
    reader.run("watch")
    before = secret(krq, "demo-node-tls")
    reader.run("rotate")
    krq.until("rotated", changed(krq, before, ca=True))
    reader.until_shows("watch")
    known = secret(krq, "demo-access")
    reader.run("token")
    reader.run("read")
    assert not (tmp_path / "token").exists()
    krq.until("both tokens", lambda: hashes(krq, "shop") == 2)
    assert known != secret(krq, "demo-access")
    assert uids(krq) == pods


def hashes(krq, name: str) -> int:
    """How many tokens of a client are valid."""
    files = secret(krq, "demo-access")
    document = json.loads(next(text for key, text in files.items() if key == "access.json"))
    (subject,) = [entry for entry in document["subjects"] if entry["name"] == name]
    return len(subject["token_hashes"])
