"""The StatefulSet: Parallel, OnDelete, claims always retained.

The pods carry no voter label: only a committed voter gets it, from the operator.
`spec.replicas` is not part of the body that is applied again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from kraftquorum_operator import names
from kraftquorum_operator.model.installation import Installation
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.model.spec import Quantities, QuorumSpec
from kraftquorum_operator.resources import access_mount, tls
from kraftquorum_operator.resources.metadata import metadata, selector, stamped
from kraftquorum_operator.resources.metrics_listener import (
    metrics_label,
    metrics_port,
    metrics_ports,
    metrics_settings,
)
from kraftquorum_operator.resources.node_config import NodeConfig
from kraftquorum_operator.resources.pod_security import pull_secrets, security_context

INSTALLATION = Installation()

GRACE_SECONDS = 15
"""Time for a leadership transfer and for the log to be closed."""

LEADERSHIP_TRANSFER_MS = 4000
"""How long the hook before the stop may try to transfer leadership: with the five seconds that the
node needs to exit, it stays within the grace period."""


def statefulset(
    owner: Owner,
    spec: QuorumSpec,
    config: NodeConfig,
    installation: Installation = INSTALLATION,
) -> Body:
    """The StatefulSet of a quorum, without its number of replicas.

    Args:
        owner: the resource.
        spec: the wanted state.
        config: the settings of its nodes, and the mark of the operator's defaults in them.
        installation: of the operator; it has the nodes' user and the domain of their addresses.
    """
    meta = metadata(owner, owner.name)
    meta["labels"] = meta["labels"] | {names.LABEL_OWNER_UID: owner.uid}
    meta["annotations"] = {
        names.ANNOTATION_NODE_IMAGE: spec.image or installation.node_image,
        names.ANNOTATION_IMAGE_OF: "spec" if config.image_named else "default",
    }
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
            "template": _template(owner, spec, config, installation),
            "volumeClaimTemplates": [
                _claim_template(owner, spec, config.defaults, installation.cluster_domain)
            ],
        },
    }


def with_template_of(body: Body, live: Body) -> Body:
    """The body with the template and the digest of a live StatefulSet.

    So it differs from the live one only if a person changed a protection.
    """
    known = cast("dict[str, str]", live["metadata"].get("annotations") or {})
    spec = body["spec"] | {"template": live["spec"]["template"]}
    kept = stamped(body | {"spec": spec})
    if names.ANNOTATION_HASH not in known:
        return kept
    keys = (names.ANNOTATION_HASH, names.ANNOTATION_NODE_IMAGE, names.ANNOTATION_IMAGE_OF)
    annotations = {key: known[key] for key in keys if key in known}
    return kept | {"metadata": kept["metadata"] | {"annotations": annotations}}


def _claim_template(
    owner: Owner, spec: QuorumSpec, defaults: str | None, cluster_domain: str
) -> Body:
    """The claim of each replica, marked with the resource that it is made for (S18)."""
    mark = {names.LABEL_DEFAULTS: defaults} if defaults else {}
    if cluster_domain != names.CLUSTER_DOMAIN:
        mark[names.LABEL_CLUSTER_DOMAIN] = cluster_domain
    body: Body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": names.CLAIM_TEMPLATE,
            "labels": selector(owner) | {names.LABEL_OWNER_UID: owner.uid} | mark,
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": spec.storage.size}},
        },
    }
    if spec.storage.class_name is not None:
        body["spec"]["storageClassName"] = spec.storage.class_name
    return body


def _template(
    owner: Owner,
    spec: QuorumSpec,
    config: NodeConfig,
    installation: Installation,
) -> Body:
    return {
        "metadata": {"labels": selector(owner) | metrics_label(spec, config.tls)},
        "spec": {
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            **pull_secrets(spec, installation),
            "securityContext": security_context(installation),
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
            "containers": [_container(owner, spec, config, installation)],
            **_volumes(owner, config),
        },
    }


def _container(
    owner: Owner, spec: QuorumSpec, config: NodeConfig, installation: Installation
) -> Body:
    port = metrics_port(spec, tls.scheme(config.tls))
    return {
        "name": names.CONTAINER,
        "image": spec.image or installation.node_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["raftnode", "run"],
        "env": _environment(owner, config, installation.cluster_domain, metrics_settings(spec)),
        "ports": [
            {"name": "peer", "containerPort": names.PEER_PORT},
            {"name": "api", "containerPort": names.API_PORT},
            *metrics_ports(spec),
        ],
        # The node listens only after it has recovered its log, which takes long for a long log.
        "startupProbe": _probe("/healthz/live", period=2, failures=900, port=port),
        "livenessProbe": _probe("/healthz/live", period=5, failures=6, port=port),
        "readinessProbe": _probe("/healthz/ready", period=1, failures=2, port=port),
        # The node transfers its leadership before it stops; the voter set does not change.
        **_hook(config),
        "volumeMounts": [
            {"name": names.CLAIM_TEMPLATE, "mountPath": names.DATA_PATH},
            *tls.mounts(config.tls),
            *access_mount.mounts(config.access),
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        **_resources(spec),
    }


def _volumes(owner: Owner, config: NodeConfig) -> Body:
    volumes = [
        *tls.volumes(owner.name, config.tls).get("volumes", []),
        *access_mount.volumes(owner.name, config.access),
    ]
    return {"volumes": volumes} if volumes else {}


def _hook(config: NodeConfig) -> Body:
    """Transfer leadership while the node still answers.

    With access control the hook needs the node's certificate. Without one, the node does the same
    at SIGTERM: a token in each pod could do far more than the hook.
    """
    if config.access is not None and config.tls == "disabled":
        return {}
    command = ["raftnode", "node", "transfer-leadership", f"--timeout-ms={LEADERSHIP_TRANSFER_MS}"]
    return {"lifecycle": {"preStop": {"exec": {"command": command}}}}


def _probe(path: str, *, period: int, failures: int, port: Body) -> Body:
    return {
        "httpGet": {"path": path, **port},
        "periodSeconds": period,
        "failureThreshold": failures,
        "timeoutSeconds": 2,
    }


def _resources(spec: QuorumSpec) -> Body:
    def quantities(given: Quantities | None) -> Body:
        return given.model_dump(exclude_none=True) if given else {}

    requests, limits = quantities(spec.resources.requests), quantities(spec.resources.limits)
    both = {"requests": requests, "limits": limits}
    resources = {key: value for key, value in both.items() if value}
    return {"resources": resources} if resources else {}


def _environment(
    owner: Owner,
    config: NodeConfig,
    cluster_domain: str,
    listeners: Sequence[tuple[str, str]],
) -> list[Body]:
    def field(name: str, path: str) -> Body:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

    domain = names.domain(owner.namespace, owner.name, cluster_domain)
    peers = ",".join(
        f"{names.pod(owner.name, ordinal)}.{domain}:{names.PEER_PORT}"
        for ordinal in range(names.NODES_MAX)
    )
    # By default the node listens on every address of its pod, of both families, so that
    # `kubectl port-forward` and commands in the pod reach it on localhost.
    values = {
        "RAFTNODE_LOG_DIR": names.DATA_PATH,
        "RAFTNODE_PEER_ADVERTISED": f"$(POD_NAME).{domain}:{names.PEER_PORT}",
        "RAFTNODE_API_ADVERTISED": f"$(POD_NAME).{domain}:{names.API_PORT}",
        "RAFTNODE_BOOTSTRAP_SERVERS": peers,
        **dict(listeners),
        **dict(config.environment),
        **tls.environment(config.tls),
        **access_mount.environment(config.access),
    }
    return [
        field("POD_NAME", "metadata.name"),
        field("RAFTNODE_NODE_ID", f"metadata.labels['{names.LABEL_POD_INDEX}']"),
        *({"name": name, "value": value} for name, value in values.items()),
    ]
