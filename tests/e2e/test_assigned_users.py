"""The images under a user that the cluster assigns, as OpenShift's `restricted-v2` does."""

import json

ASSIGNED = 1_000_690_000
"""In the range that OpenShift gives to a namespace: it has no entry in passwd."""


def pod(name: str, image: str, **container) -> str:
    """Restricted, with the user, the group and the volume's group that OpenShift assigns."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 5,
                "automountServiceAccountToken": False,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": ASSIGNED,
                    "runAsGroup": 0,
                    "fsGroup": ASSIGNED,
                    "fsGroupChangePolicy": "OnRootMismatch",
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "volumes": [{"name": "data", "emptyDir": {}}],
                "containers": [
                    {
                        "name": "main",
                        "image": image,
                        "imagePullPolicy": "IfNotPresent",
                        "volumeMounts": [{"name": "data", "mountPath": "/var/lib/raftnode"}],
                        "securityContext": {
                            "allowPrivilegeEscalation": False,
                            "readOnlyRootFilesystem": True,
                            "capabilities": {"drop": ["ALL"]},
                        },
                        **container,
                    }
                ],
            },
        }
    )


def test_assigned_user(case):
    """Both images run under any user, with a read-only root and a volume of an assigned group"""
    namespace = case.quorum().namespace
    place = ("--namespace", namespace)
    tags = case.e2e_cluster.tags
    settings = {
        "RAFTNODE_NODE_ID": "0",
        "RAFTNODE_LOG_DIR": "/var/lib/raftnode",
        "RAFTNODE_PEER_ADVERTISED": "$(IP):9093",
        "RAFTNODE_API_ADVERTISED": "$(IP):9080",
    }
    address = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    node = pod(
        "node",
        tags.image("node", tags.now),
        command=["raftnode", "run"],
        env=[address, *({"name": name, "value": value} for name, value in settings.items())],
        readinessProbe={
            "httpGet": {"path": "/healthz/live", "port": 9080},
            "periodSeconds": 1,
        },
    )
    operator = pod(
        "operator",
        tags.image("operator", tags.now),
        command=["kraftquorum-operator", "crds", "print"],
    )
    for text in (node, operator):
        case.e2e_cluster.kubectl(*place, "apply", "-f", "-", stdin=text)
    case.e2e_cluster.kubectl(*place, "wait", "--for=condition=Ready", "pod/node", "--timeout=120s")
    status = case.e2e_cluster.kubectl(
        *place,
        *["exec", "node", "--", "python3", "-c"],
        "import os; print(os.getuid(), os.stat('/var/lib/raftnode').st_gid)",
    )
    assert status.split() == [str(ASSIGNED), str(ASSIGNED)]
    done = "--for=jsonpath={.status.phase}=Succeeded"
    case.e2e_cluster.kubectl(*place, "wait", done, "pod/operator", "--timeout=120s")
    assert "CustomResourceDefinition" in case.e2e_cluster.kubectl(*place, "logs", "operator")
