"""The StatefulSet: Parallel, OnDelete, claims always retained.

The pods carry no voter label: only a committed voter gets it, from the operator.
`spec.replicas` is not part of the body that is applied again.
"""

from __future__ import annotations

from kraftquorum_operator import names
from kraftquorum_operator.model.spec import NodeSettings, Quantities, QuorumSpec
from kraftquorum_operator.resources.metadata import Body, Owner, metadata, selector

GRACE_SECONDS = 15
"""Time for a leader to hand over and for the log to be closed."""

HAND_OVER_MS = 4000
"""How long the hook before the end may look for a successor: with the node's own five seconds
for its end it stays within the grace."""


def statefulset(owner: Owner, spec: QuorumSpec) -> Body:
    """The StatefulSet of a quorum, without its number of replicas."""
    meta = metadata(owner, owner.name)
    meta["labels"] = meta["labels"] | {names.LABEL_OWNER_UID: owner.uid}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": meta,
        "spec": {
            "serviceName": names.headless_service(owner.name),
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": "Retain",
                "whenScaled": "Retain",
            },
            "selector": {"matchLabels": selector(owner)},
            "template": _template(owner, spec),
            "volumeClaimTemplates": [_claim_template(owner, spec)],
        },
    }


def _claim_template(owner: Owner, spec: QuorumSpec) -> Body:
    """The claim of each replica, marked with the resource that it is made for (S18)."""
    body: Body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": names.CLAIM_TEMPLATE,
            "labels": selector(owner) | {names.LABEL_OWNER_UID: owner.uid},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": spec.storage.size}},
        },
    }
    if spec.storage.class_name is not None:
        body["spec"]["storageClassName"] = spec.storage.class_name
    return body


def _template(owner: Owner, spec: QuorumSpec) -> Body:
    return {
        "metadata": {"labels": selector(owner)},
        "spec": {
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10_001,
                "runAsGroup": 10_001,
                "fsGroup": 10_001,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "affinity": {
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 100,
                            "podAffinityTerm": {
                                "topologyKey": "kubernetes.io/hostname",
                                "labelSelector": {"matchLabels": selector(owner)},
                            },
                        }
                    ]
                }
            },
            "containers": [_container(owner, spec)],
        },
    }


def _container(owner: Owner, spec: QuorumSpec) -> Body:
    return {
        "name": names.CONTAINER,
        "image": spec.image or names.NODE_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["raftnode", "run"],
        "env": _environment(owner, spec),
        "ports": [
            {"name": "peer", "containerPort": names.PEER_PORT},
            {"name": "api", "containerPort": names.API_PORT},
        ],
        # A long log takes its time to recover, and only then does the node listen.
        "startupProbe": _probe("/healthz/live", period=2, failures=900),
        "livenessProbe": _probe("/healthz/live", period=5, failures=6),
        "readinessProbe": _probe("/healthz/ready", period=1, failures=2),
        # Leadership goes while the node still answers; the voters stay as they are.
        "lifecycle": {
            "preStop": {
                "exec": {
                    "command": ["raftnode", "node", "hand-over", f"--timeout-ms={HAND_OVER_MS}"]
                }
            }
        },
        "volumeMounts": [{"name": names.CLAIM_TEMPLATE, "mountPath": names.DATA_PATH}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        **_resources(spec),
    }


def _probe(path: str, *, period: int, failures: int) -> Body:
    return {
        "httpGet": {"path": path, "port": "api"},
        "periodSeconds": period,
        "failureThreshold": failures,
        "timeoutSeconds": 2,
    }


def _resources(spec: QuorumSpec) -> Body:
    def quantities(given: Quantities | None) -> Body:
        return given.model_dump(exclude_none=True) if given else {}

    requests, limits = quantities(spec.resources.requests), quantities(spec.resources.limits)
    both = {"requests": requests, "limits": limits}
    found = {key: value for key, value in both.items() if value}
    return {"resources": found} if found else {}


def fetch_max_wait_ms(node: NodeSettings) -> int:
    """How long an idle leader may hold a Fetch: derived, so that every allowed pair of times works.

    A node refuses to start unless it is at most half the fetch time-out and less than the
    election time-out; 500 ms with the defaults.
    """
    return min(500, node.fetch_timeout_ms // 4, node.election_timeout_ms // 2)


def _environment(owner: Owner, spec: QuorumSpec) -> list[Body]:
    def field(name: str, path: str) -> Body:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

    domain = names.domain(owner.namespace, owner.name)
    peers = ",".join(
        f"{names.pod(owner.name, ordinal)}.{domain}:{names.PEER_PORT}"
        for ordinal in range(names.NODES_MAX)
    )
    node = spec.node_settings
    values = {
        "RAFTNODE_LOG_DIR": names.DATA_PATH,
        "RAFTNODE_PEER_LISTEN": f"$(POD_IP):{names.PEER_PORT}",
        "RAFTNODE_API_LISTEN": f"$(POD_IP):{names.API_PORT}",
        "RAFTNODE_PEER_ADVERTISED": f"$(POD_NAME).{domain}:{names.PEER_PORT}",
        "RAFTNODE_API_ADVERTISED": f"$(POD_NAME).{domain}:{names.API_PORT}",
        "RAFTNODE_BOOTSTRAP_SERVERS": peers,
        # For commands in the pod (`kubectl exec`): the node does not listen on localhost.
        "RAFTNODE_BOOTSTRAP_SERVER": f"$(POD_IP):{names.API_PORT}",
        "RAFTNODE_FETCH_TIMEOUT_MS": str(node.fetch_timeout_ms),
        "RAFTNODE_FETCH_MAX_WAIT_MS": str(fetch_max_wait_ms(node)),
        "RAFTNODE_ELECTION_TIMEOUT_MS": str(node.election_timeout_ms),
        "RAFTNODE_ELECTION_BACKOFF_MAX_MS": str(node.election_backoff_max_ms),
        "RAFTNODE_REQUEST_TIMEOUT_MS": str(node.request_timeout_ms),
    }
    # What is as by default is left out, so that a new operator rolls nobody for it.
    if node.fetches_in_flight_max != 1:
        values["RAFTNODE_FETCHES_IN_FLIGHT_MAX"] = str(node.fetches_in_flight_max)
    if node.read_lease_clock_drift_percent:
        drift = str(node.read_lease_clock_drift_percent)
        values["RAFTNODE_READ_LEASE_CLOCK_DRIFT_PERCENT"] = drift
    if node.log_preallocate:
        values["RAFTNODE_LOG_PREALLOCATE"] = "true"
    return [
        field("POD_NAME", "metadata.name"),
        field("POD_IP", "status.podIP"),
        field("RAFTNODE_NODE_ID", f"metadata.labels['{names.LABEL_POD_INDEX}']"),
        *({"name": name, "value": value} for name, value in values.items()),
    ]
