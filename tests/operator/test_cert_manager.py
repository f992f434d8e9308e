"""`tls.mode: CertManager` on a real API server with cert-manager's own CRDs.

The quick tests have an issuer of their own, which signs Certificates as cert-manager does. The others
have cert-manager's controllers: an issuer `SelfSigned` makes a CA, and an issuer `CA` signs by it.
The steps of the how-to run with both.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from guidelib.reader import ClusterReader
from kraftquorum_demo.environment import NoDns
from kraftquorum_devcluster.certmanager import install_crds, remove_crds, running_controllers
from kraftquorum_devcluster.errors import CommandError
from kraftquorum_operator.execute.certificate_signing import (
    LeafNames,
    Pair,
    issue_leaf,
    make_authority,
)
from raftnode.client import Credentials, QuorumClient
from raftnode.core.types import Endpoint

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

SPEC: dict[str, Any] = {
    "config": {"fetch_timeout_ms": 9000},
    "replacement": {"gracePeriodSeconds": 9},
}
ISSUER = {"name": "quorum-ca"}
TLS = {"mode": "CertManager", "issuerRef": ISSUER, "certificateLifetime": "48h"}
CERTIFICATES = "apis/cert-manager.io/v1/namespaces/{}/certificates"
SECRETS = "api/v1/namespaces/{}/secrets"


def objects(krq, path: str) -> dict[str, dict[str, Any]]:
    """By name; none if the API server does not know the kind."""
    status, body = krq.api.get(path.format(krq.namespace))
    return {one["metadata"]["name"]: one for one in body["items"]} if status == 200 else {}


def data_of(secret: dict[str, Any]) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in secret.get("data", {}).items()}


def mounted(krq) -> dict[str, bytes]:
    return data_of(objects(krq, SECRETS)["demo-node-tls"])


def uid_of(krq, name: str) -> str:
    return objects(krq, SECRETS)[name]["metadata"]["uid"]


def renew(krq) -> None:
    value = f"kraftquorum.io/renew-certificates={time.time_ns()}"
    krq.kubectl("annotate", "krq", "demo", value, "--overwrite")


def issued(krq) -> set[str]:
    """The Certificates of the quorum, and their Secrets."""
    found = {*objects(krq, CERTIFICATES), *objects(krq, SECRETS)}
    return {name for name in found if name.endswith("-issued")}


def issued_for(*ordinals: int) -> set[str]:
    return {"demo-operator-issued", *(f"demo-{ordinal}-issued" for ordinal in ordinals)}


def is_failing(krq, reason: str, words: str = "") -> bool:
    condition = krq.condition("CertificatesFailing")
    return (condition.get("status"), condition.get("reason")) == ("True", reason) and (
        words in condition["message"]
    )


async def put(krq, tmp_path: Path) -> None:
    """A write over TLS by a client that trusts the CAs as they are now."""
    body = krq.kubectl("get", "configmap", "demo-client-ca", "-o", "json")
    file = tmp_path / "client-ca.crt"
    file.write_text(json.loads(body)["data"]["ca.crt"])
    domain = f"demo-peers.{krq.namespace}.svc.cluster.local"
    async with QuorumClient(
        [Endpoint(f"demo-0.{domain}", 9080)],
        hosts_file=krq.cluster.hosts_file,
        resolver=NoDns(),
        credentials=Credentials(ca_file=file),
        timeout_ms=20_000,
    ) as client:
        await client.put("key", b"value")


class Signer:
    """Signs Certificates as cert-manager does: a Secret with `ca.crt`, then the condition Ready."""

    def __init__(self, krq) -> None:
        self._krq = krq
        self.authority: Pair = make_authority("signer", 864_000, time.time())
        self.keeps_uris = True
        self.why_not = ""
        self._end = threading.Event()

    @contextmanager
    def running(self) -> Iterator[Signer]:
        """Sign in the background."""
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield self
        finally:
            self._end.set()
            thread.join()

    def _run(self) -> None:
        while not self._end.wait(0.3):
            listed = json.loads(self._kubectl("get", "certificates", "-o", "json"))["items"]
            text = self._kubectl("get", "secrets", "-o", "json")
            secrets = {one["metadata"]["name"]: one for one in json.loads(text)["items"]}
            for certificate in listed:
                if "deletionTimestamp" not in certificate["metadata"]:
                    self._serve(certificate, secrets.get(certificate["spec"]["secretName"]))

    def _kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self._krq.cluster.kubectl("-n", self._krq.namespace, *arguments, stdin=stdin)

    def _serve(self, certificate: dict[str, Any], secret: dict[str, Any] | None) -> None:
        spec, name = certificate["spec"], certificate["metadata"]["name"]
        names = spec.get("uris", [])
        mark = {"test/uris": ",".join(names) if self.keeps_uris else ""}
        annotations = secret["metadata"].get("annotations", {}) if secret is not None else {}
        conditions = certificate.get("status", {}).get("conditions", [])
        again = any((c["type"], c["status"]) == ("Issuing", "True") for c in conditions)
        if secret is None or annotations.get("test/uris") != mark["test/uris"] or again:
            if self.why_not:
                self._report(certificate, "False", self.why_not)
                return
            hosts = frozenset([*spec.get("dnsNames", []), *spec.get("ipAddresses", [])])
            uris = frozenset(names if self.keeps_uris else [])
            leaf = LeafNames(name, uris, hosts)
            pair = (
                self.authority
                if spec.get("isCA")
                else issue_leaf(self.authority, leaf, 172_800, time.time())
            )
            ca = self.authority.certificate
            entries = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": ca}
            body = {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": "kubernetes.io/tls",
                "metadata": {
                    "name": spec["secretName"],
                    "labels": spec.get("secretTemplate", {}).get("labels", {}),
                    "annotations": {"cert-manager.io/certificate-name": name} | mark,
                },
                "data": {key: base64.b64encode(value).decode() for key, value in entries.items()},
            }
            self._kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(body))
        if again or [c["status"] for c in conditions if c["type"] == "Ready"] != ["True"]:
            self._report(certificate, "True", "issued")

    def _report(self, certificate: dict[str, Any], status: str, message: str) -> None:
        past = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 600))
        condition = {
            "type": "Ready",
            "status": status,
            "reason": "Test",
            "message": message,
            "lastTransitionTime": past,
            "observedGeneration": certificate["metadata"]["generation"],
        }
        change = json.dumps({"status": {"conditions": [condition]}})
        name = certificate["metadata"]["name"]
        with suppress(CommandError):  # the operator may have deleted it meanwhile
            self._kubectl(
                *["patch", "certificate", name, "--subresource=status", "--type=merge"],
                f"--patch={change}",
            )


ISSUER_BODY = {
    "apiVersion": "cert-manager.io/v1",
    "kind": "Issuer",
    "metadata": {"name": ISSUER["name"]},
    "spec": {"ca": {"secretName": "ca-pair"}},
}


def apply(krq, *bodies: dict[str, Any]) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": list(bodies)}
    krq.kubectl("apply", "-f", "-", stdin=json.dumps(listed))


async def test_certificates_of_cert_manager_from_its_crds_to_another_mode(
    krq, operators, tmp_path: Path
) -> None:
    """Not installed, no issuer, names that the issuer leaves out, formed, scaled, switched away."""
    remove_crds(krq.cluster)
    operators.start()
    krq.apply(**SPEC, voters=1, tls=TLS)
    krq.until("missing", lambda: is_failing(krq, "CertManagerMissing", "install cert-manager"))
    assert not krq.list("sts")
    install_crds(krq.cluster)
    krq.until("no issuer", lambda: is_failing(krq, "IssuerNotReady", "there is no Issuer"))
    apply(krq, ISSUER_BODY)
    signer = Signer(krq)
    signer.why_not = "the CA is locked"
    with signer.running():
        krq.until("locked", lambda: is_failing(krq, "CertificateNotReady", "the CA is locked"))
        signer.keeps_uris, signer.why_not = False, ""
        krq.until("no URI", lambda: is_failing(krq, "InvalidSecret", "lacks the URI spiffe://"))
        assert not krq.list("sts")
        signer.keeps_uris = True
        krq.ready(1)
        assert krq.condition("CertificatesFailing") == {"status": "False"}
        await put(krq, tmp_path)
        first, secret_uid = mounted(krq), uid_of(krq, "demo-0-issued")
        spec = objects(krq, CERTIFICATES)["demo-0-issued"]["spec"]
        identity = f"spiffe://kraftquorum/cluster/{krq.status()['clusterId']}/node/0"
        assert spec["uris"] == [identity]
        assert spec["usages"] == ["digital signature", "server auth", "client auth"]
        assert spec["issuerRef"] == ISSUER | {"kind": "Issuer", "group": "cert-manager.io"}
        # The annotation has cert-manager issue all of them again, and no Secret goes meanwhile.
        renew(krq)
        krq.until("renewed", lambda: is_renewed(krq, first, "demo-0"))
        assert mounted(krq)["ca.crt"] == first["ca.crt"]
        assert uid_of(krq, "demo-0-issued") == secret_uid
        await put(krq, tmp_path)
        # A pod starts only with its certificate; those of removed pods go, with their Secrets.
        signer.why_not = "the CA is locked again"
        krq.apply(**SPEC, voters=2, tls=TLS)
        krq.until("waits", lambda: krq.status().get("waitingFor") == "certificates_issued")
        assert krq.get("sts")["spec"]["replicas"] == 1
        signer.why_not = ""
        krq.ready(2)
        assert issued(krq) == issued_for(0, 1)
        krq.apply(**SPEC, voters=1, tls=TLS)
        krq.ready(1)
        krq.until("demo-1 gone", lambda: issued(krq) == issued_for(0))
        krq.until("demo-1 dropped", lambda: "demo-1.key" not in mounted(krq))
        # Another CA: both are trusted until the node presents the new certificate.
        signer.authority = make_authority("next", 864_000, time.time())
        krq.kubectl("delete", "secret", "demo-0-issued", "demo-operator-issued")
        krq.until("moved", lambda: is_moved(krq, first, signer.authority.certificate))
        await put(krq, tmp_path)
        # cert-manager goes away, and the quorum stays as it is.
        pods = [pod["metadata"]["uid"] for pod in krq.list("pods")]
        signer.why_not = "gone"
        krq.kubectl("delete", "issuer", ISSUER["name"])
        krq.until("no issuer", lambda: is_failing(krq, "IssuerNotReady"))
        await put(krq, tmp_path)
        assert [pod["metadata"]["uid"] for pod in krq.list("pods")] == pods
        krq.apply(**SPEC, voters=1, tls={"mode": "Managed"})
        krq.until("all gone", lambda: not issued(krq))
        krq.until("managed", lambda: is_moved(krq, mounted_ca(krq), authority_of(krq)))
        await put(krq, tmp_path)
    krq.delete()
    krq.until("pods gone", lambda: not krq.list("pods"))


def mounted_ca(krq) -> dict[str, bytes]:
    return {"ca.crt": b"another"}


def authority_of(krq) -> bytes:
    return data_of(objects(krq, SECRETS)["demo-ca"]).get("ca.crt", b"none")


def is_moved(krq, before: dict[str, bytes], authority: bytes) -> bool:
    """Whether nodes trust one CA alone, and it is this one."""
    now = mounted(krq)["ca.crt"]
    return now != before["ca.crt"] and serials(now) == serials(authority)


def serials(pem: bytes) -> set[int]:
    """Of the certificates of a text; empty: it has none."""
    if b"BEGIN" not in pem:
        return set()
    return {part.serial_number for part in x509.load_pem_x509_certificates(pem)}


# --- cert-manager's own controllers ----------------------------------------------------------

SELF_SIGNED = [
    {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Issuer",
        "metadata": {"name": "self-signed"},
        "spec": {"selfSigned": {}},
    },
    {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": {"name": "ca-pair"},
        "spec": {
            "secretName": "ca-pair",
            "isCA": True,
            "commonName": "quorum CA",
            "duration": "2160h",
            "privateKey": {"algorithm": "ECDSA", "size": 256},
            "issuerRef": {"name": "self-signed"},
        },
    },
]


def is_renewed(krq, before: dict[str, bytes], *names: str) -> bool:
    now = mounted(krq)
    return all(now[f"{name}.crt"] != before[f"{name}.crt"] for name in names)


def quorum_certificates(krq) -> list[dict[str, Any]]:
    return [body for name, body in objects(krq, CERTIFICATES).items() if name.endswith("-issued")]


def revisions_of(krq) -> set[tuple[str, int]]:
    """How often cert-manager has issued each Certificate."""
    return {(b["metadata"]["name"], b["status"]["revision"]) for b in quorum_certificates(krq)}


def test_the_nodes_know_the_operator_by_the_certificate_that_was_issued(krq, operators) -> None:
    """With access control, and without a token: the certificate has the operator's URI."""
    install_crds(krq.cluster)
    apply(krq, ISSUER_BODY)
    operators.start()
    with Signer(krq).running():
        krq.apply(**SPEC, voters=1, tls=TLS, access={"clients": []})
        krq.ready(1)
        forms = [line for line in krq.audited() if line.get("operation") == "form"]
        assert {line["authenticated_by"] for line in forms} == {"certificate"}
        krq.delete()
        krq.until("pods gone", lambda: not krq.list("pods"))


def follow_the_pages(krq, folder: Path, replace_authority: Callable[[], None]) -> None:
    """The how-to but its first step, which changes the rights of a release; then another CA."""
    reader = ClusterReader("howto/cert-manager.md", folder, krq.cluster, krq.namespace)
    reader.save("issuer", "issuer.yaml")
    reader.run("authority")
    reader.save("resource", "demo.yaml")
    reader.run("apply")
    assert reader.run("failing") == ""
    before = mounted(krq)
    reader.run("renew")
    krq.until("renewed", lambda: is_renewed(krq, before, "demo-0", "demo-1", "demo-2"))
    assert mounted(krq)["ca.crt"] == before["ca.crt"]
    rotating = ClusterReader("howto/rotate-certificates.md", folder, krq.cluster, krq.namespace)
    replace_authority()
    rotating.run("authority")
    rotating.run("renew")
    krq.until("moved", lambda: is_moved(krq, before, authority_of_the_issuer(krq)))


def authority_of_the_issuer(krq) -> bytes:
    return data_of(objects(krq, SECRETS)["quorum-ca"])["tls.crt"]


@pytest.mark.extended
def test_certificates_are_issued_and_renewed_as_the_pages_say(
    krq, operators, tmp_path: Path
) -> None:
    install_crds(krq.cluster)
    operators.start()
    signer = Signer(krq)

    def replace_authority() -> None:
        signer.authority = make_authority("next", 864_000, time.time())

    with signer.running():
        follow_the_pages(krq, tmp_path, replace_authority)


@pytest.mark.nightly
def test_the_real_cert_manager_issues_and_renews_as_the_pages_say(
    krq, operators, tmp_path: Path
) -> None:
    install_crds(krq.cluster)
    operators.start()
    with running_controllers(krq.cluster, krq.namespace, tmp_path / "cert-manager.log"):
        follow_the_pages(krq, tmp_path, lambda: None)


@pytest.mark.nightly
async def test_the_real_cert_manager_issues_renews_and_is_cleaned_up(
    krq, operators, tmp_path: Path
) -> None:
    install_crds(krq.cluster)
    log = tmp_path / "cert-manager.log"
    with running_controllers(krq.cluster, krq.namespace, log):
        operators.start()
        krq.apply(**SPEC, voters=3, tls=TLS)
        krq.until("no issuer", lambda: is_failing(krq, "IssuerNotReady", "there is no Issuer"))
        assert not krq.list("sts")
        apply(krq, *SELF_SIGNED, ISSUER_BODY)
        krq.ready(3)
        assert issued(krq) == issued_for(0, 1, 2)
        await put(krq, tmp_path)
        pods = [pod["metadata"]["uid"] for pod in krq.list("pods")]
        # Renewed, as when a person deletes the Secret of an exposed key.
        before = mounted(krq)
        krq.kubectl("delete", "secret", "demo-1-issued")
        krq.until("renewed", lambda: is_renewed(krq, before, "demo-1"))
        # Renewed by the annotation, each once and without a gap.
        before, secret_uid = mounted(krq), uid_of(krq, "demo-0-issued")
        revisions = revisions_of(krq)
        renew(krq)
        krq.until("all renewed", lambda: is_renewed(krq, before, "demo-0", "demo-1", "demo-2"))
        krq.until("the operator's", lambda: len(revisions_of(krq) & revisions) == 0)
        assert uid_of(krq, "demo-0-issued") == secret_uid
        assert all(
            "Issuing" not in {c["type"] for c in body["status"]["conditions"]}
            for body in quorum_certificates(krq)
        )
        await put(krq, tmp_path)
        # Another lifetime is another certificate.
        before = mounted(krq)
        krq.apply(**SPEC, voters=3, tls=TLS | {"certificateLifetime": "24h", "renewBefore": "20h"})
        krq.until("shorter", lambda: is_renewed(krq, before, "demo-0", "demo-1", "demo-2"))
        # Another CA, with overlap.
        before = mounted(krq)
        krq.kubectl("delete", "secret", "ca-pair")
        krq.until("another CA", lambda: "ca-pair" in objects(krq, SECRETS))
        krq.kubectl("delete", "secret", *issued_for(0, 1, 2))
        krq.until(
            "moved",
            lambda: is_moved(krq, before, data_of(objects(krq, SECRETS)["ca-pair"])["tls.crt"]),
        )
        await put(krq, tmp_path)
        # Without its issuer the quorum goes on, and with it again all is well.
        krq.kubectl("delete", "issuer", ISSUER["name"])
        krq.until("no issuer", lambda: is_failing(krq, "IssuerNotReady", "there is no Issuer"))
        await put(krq, tmp_path)
        assert [pod["metadata"]["uid"] for pod in krq.list("pods")] == pods
        assert all(
            pod["status"]["containerStatuses"][0]["restartCount"] == 0 for pod in krq.list("pods")
        )
        apply(krq, ISSUER_BODY)
        krq.until("well", lambda: krq.condition("CertificatesFailing")["status"] == "False")
        krq.apply(**SPEC, voters=1, tls=TLS)
        krq.ready(1)
        krq.until("gone", lambda: issued(krq) == issued_for(0))
        # Written once for each lifetime and renewal: neither cert-manager nor the API server changes
        # any of it.
        applied = [action for action in operators.actions() if "Certificate/demo-0" in action]
        assert len(applied) == 4, applied
        krq.delete()
        krq.until("all gone", lambda: not issued(krq))
        # The cluster id stays with the claims.
        cluster_id = json.loads(krq.kubectl("get", "secret", "demo-ca", "-o", "json"))["metadata"][
            "annotations"
        ]["kraftquorum.io/cluster-id"]
        krq.until("pods gone", lambda: not krq.list("pods"))
        krq.apply(**SPEC, voters=1, tls=TLS)
        krq.ready(1)
        assert krq.status()["clusterId"] == cluster_id
        await put(krq, tmp_path)
