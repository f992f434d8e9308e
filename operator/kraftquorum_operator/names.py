"""Every name that the operator puts into a cluster: API group, labels, annotations, object names.

What must not live here: anything that decides. Two operators of different
versions meet in these names, so one of them changes only with a migration.
"""

from __future__ import annotations

GROUP = "kraftquorum.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "KRaftQuorum"
PLURAL = "kraftquorums"
SINGULAR = "kraftquorum"
SHORT_NAME = "krq"
KAFKA_KIND = "KafkaQuorum"
KAFKA_PLURAL = "kafkaquorums"
KAFKA_SINGULAR = "kafkaquorum"
KAFKA_SHORT_NAME = "kfq"

MANAGER = "kraftquorum-operator"
"""Field manager of every write, and the value of `app.kubernetes.io/managed-by`."""

LABEL_APP = "app.kubernetes.io/name"
LABEL_INSTANCE = "app.kubernetes.io/instance"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_NAMESPACE = "kubernetes.io/metadata.name"
"""Set by Kubernetes on each namespace."""
APP = "kraftquorum"
OPERATOR_APP = "kraftquorum-operator"
"""Value of `LABEL_APP` on the operator's pods, which the chart sets."""

LABEL_OWNER_UID = f"{GROUP}/owner-uid"
"""On claims and the StatefulSet: UID of the resource that they were made for (S18)."""

LABEL_DEFAULTS = f"{GROUP}/defaults"
"""On the StatefulSet's claim template, which never changes, and so on claims: which defaults of
the operator hold for the quorum that they were made with. Without it: none but the node's own."""

DEFAULTS = "3"
"""What quorums that are made now get: the settings of `resources/node_config.py`, the policy of
`resources/network_policy.py` and the TLS of `model/tls.py`."""

DEFAULTS_WITH_POLICY = frozenset({"2", "3"})
"""Marks of quorums with a NetworkPolicy by default; those with the mark `1` are older than it."""

DEFAULTS_WITH_TLS = frozenset({"3"})
"""Marks of quorums with TLS of mode `Managed` by default."""

CLUSTER_DOMAIN = "cluster.local"
"""What names of Services end with, unless the cluster was set up with another domain."""

LABEL_CLUSTER_DOMAIN = f"{GROUP}/cluster-domain"
"""On the StatefulSet's claim template, which never changes, and so on claims: the cluster domain in
the addresses of a quorum. Without it: `cluster.local`."""

LABEL_POD = "statefulset.kubernetes.io/pod-name"
"""Kubernetes sets it on each pod of a StatefulSet, to its name; the budget selects by it (S22)."""

LABEL_POD_INDEX = "apps.kubernetes.io/pod-index"
"""Set by Kubernetes on each pod of a StatefulSet: the ordinal, which is the node id."""

ANNOTATION_HASH = f"{GROUP}/applied-hash"
"""Digest of the body that was applied last, so that an unchanged object is not written again."""

ANNOTATION_DIRECTORY_ID = f"{GROUP}/directory-id"
ANNOTATION_CLAIM_UID = f"{GROUP}/claim-uid"
"""On a claim: the directory id that was recorded on it, and the claim's own UID. On a copy of
the claim the latter is another claim's UID (S3)."""

ANNOTATION_RECORDED = f"{GROUP}/recorded-claim-"
"""On the StatefulSet, with the ordinal: directory id and claim UID that were recorded last, for
a recreated claim, which has no annotations (S3)."""

ANNOTATION_GIVEN_UP = f"{GROUP}/given-up-"
"""On the StatefulSet, with the ordinal: which claims the operator gave up, and when."""

ANNOTATION_SCALE_UP_DEFERRED = f"{GROUP}/scale-up-deferred"
"""On the StatefulSet: for which revision of the template a scale-up is deferred, and why."""

ANNOTATION_RECOUNT = f"{GROUP}/counted-for"
"""On the disruption budget: which pods it was last touched for (S22)."""

ANNOTATION_NODE_IMAGE = f"{GROUP}/node-image"
"""On the StatefulSet: the image that the operator gave to its nodes, which it keeps."""

ANNOTATION_IMAGE_OF = f"{GROUP}/node-image-of"
"""On the StatefulSet: `spec` if the resource named the image, which is not kept, or `default`."""

FINALIZER = f"{GROUP}/quorum"
KOPF_FINALIZER = f"{GROUP}/kopf"
"""kopf's own, which it never sets."""

NODE_IMAGE = "ghcr.io/kraftquorum/node:0.1.0"
"""Image of the node where neither the resource nor the operator's settings name one."""

ANNOTATION_CLUSTER_ID = f"{GROUP}/cluster-id"
"""On the Secret with the CA: the cluster id in the certificates that it signs."""

ANNOTATION_ROTATE_CA = f"{GROUP}/rotate-ca"
ANNOTATION_RENEW = f"{GROUP}/renew-certificates"
"""On the resource: a new value asks for another CA, or for new certificates. On the Secrets: the
value that was done last. On a Certificate of cert-manager: the value that was asked for last."""

ANNOTATION_REPLACES = f"{GROUP}/replaces-certificate"
"""On a Certificate of cert-manager: SHA-256 of the certificate in its Secret that the last value of
`ANNOTATION_RENEW` is to replace."""

ANNOTATION_ISSUED = f"{GROUP}/cert-manager-pods"
"""On the Secret with the CA: below which ordinal pods may have Certificates of cert-manager. It is
raised before the operator applies them, and lowered once they and their Secrets are gone."""

CONTAINER = "raftnode"
CLAIM_TEMPLATE = "data"
DATA_PATH = "/var/lib/raftnode"
TLS_VOLUME = "tls"
TLS_PATH = "/etc/kraftquorum/tls"
ACCESS_VOLUME = "access"
ACCESS_PATH = "/etc/kraftquorum/access"
PEER_PORT = 9093
API_PORT = 9080
METRICS_PORT = 9081
"""Of metrics and probes, with `spec.metricsListener: Separate`."""
LABEL_METRICS_PORT = f"{GROUP}/metrics-port"
"""On pods that have it: the name of the port of their metrics. The others have them on `api`."""
LABEL_METRICS_SCHEME = f"{GROUP}/metrics-scheme"
"""On pods with TLS on the port of their metrics: `https`."""
NODES_MAX = 9


def headless_service(quorum: str) -> str:
    """Name of the Service that gives each pod its DNS name."""
    return f"{quorum}-peers"


def client_service(quorum: str) -> str:
    """Name of the Service that clients use: ready replicas only."""
    return quorum


def pod(quorum: str, ordinal: int) -> str:
    """Name that the StatefulSet gives to the pod of an ordinal."""
    return f"{quorum}-{ordinal}"


def claim(quorum: str, ordinal: int) -> str:
    """Name that the StatefulSet gives to the claim of an ordinal."""
    return f"{CLAIM_TEMPLATE}-{quorum}-{ordinal}"


def domain(namespace: str, quorum: str, cluster_domain: str = CLUSTER_DOMAIN) -> str:
    """What the pods' DNS names end with; a replica says by it which pod it was started for."""
    return f"{headless_service(quorum)}.{namespace}.svc.{cluster_domain}"


def authority(quorum: str) -> str:
    """Name of the Secret with the CA and its key, which only the operator reads."""
    return f"{quorum}-ca"


def node_tls(quorum: str) -> str:
    """Name of the Secret with the certificates of the nodes, which their pods mount."""
    return f"{quorum}-node-tls"


def operator_tls(quorum: str) -> str:
    """Name of the Secret with the certificate that the operator presents to the nodes."""
    return f"{quorum}-operator-tls"


def issued(quorum: str, name: str) -> str:
    """Name of cert-manager's Certificate of a pod or of the operator, and of its Secret."""
    return f"{quorum}-{name}-issued" if name == "operator" else f"{name}-issued"


def access(quorum: str) -> str:
    """Name of the Secret with the access file, which the nodes' pods mount."""
    return f"{quorum}-access"


def operator_token(quorum: str) -> str:
    """Name of the Secret with the token that the operator presents to the nodes."""
    return f"{quorum}-operator-token"


def client_ca(quorum: str) -> str:
    """Name of the ConfigMap with the CAs, which clients mount."""
    return f"{quorum}-client-ca"


def latch(resource_uid: str) -> str:
    """Name of the formation latch: the resource's UID, so that a namesake never finds it (S18)."""
    return f"{APP}-latch-{resource_uid}"


def ordinal_of(name: str, prefix: str) -> int | None:
    """Read the ordinal off `<prefix>-<ordinal>`; None for any other name."""
    head, _, tail = name.rpartition("-")
    return int(tail) if head == prefix and tail.isdecimal() and str(int(tail)) == tail else None


def hosts(
    namespace: str, quorum: str, ordinal: int, cluster_domain: str = CLUSTER_DOMAIN
) -> tuple[str, ...]:
    """Names under which clients and peers reach the pod of an ordinal, for its certificate."""
    services = [
        f"{pod(quorum, ordinal)}.{headless_service(quorum)}",
        headless_service(quorum),
        client_service(quorum),
    ]
    suffixes = ("", f".{namespace}", f".{namespace}.svc", f".{namespace}.svc.{cluster_domain}")
    return (*(f"{name}{suffix}" for name in services for suffix in suffixes), "localhost")


SPIFFE = "spiffe://kraftquorum/cluster"


def node_identity(cluster_id: str, node_id: int) -> str:
    """The URI of a node in its certificate."""
    return f"{SPIFFE}/{cluster_id}/node/{node_id}"


def operator_identity(cluster_id: str) -> str:
    """The URI of the operator in its certificate."""
    return f"{SPIFFE}/{cluster_id}/operator"
