import pytest

from kraftquorum_devcluster.errors import UnsupportedPodError
from kraftquorum_devcluster.processnode.podspec import check_supported, claim_names, port_number


def pod(container=None, **spec):
    main = {"name": "main", "command": ["true"], **(container or {})}
    return {"spec": {**spec, "containers": [main]}}


def test_what_is_harmless_is_accepted():
    check_supported(
        pod(
            {
                "securityContext": {"runAsNonRoot": True},
                "resources": {"limits": {"cpu": "1"}},
                "volumeMounts": [{"name": "d", "mountPath": "/data"}],
                "livenessProbe": {"tcpSocket": {"port": 1}},
                "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
            },
            affinity={"podAntiAffinity": {}},
            tolerations=[{}],
            volumes=[
                {"name": "a", "emptyDir": {}},
                {"name": "b", "persistentVolumeClaim": {"claimName": "c"}},
            ],
        )
    )


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (pod({"command": None}), "no command"),
        (pod({"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}), "lifecycle.preStop"),
        (pod({"lifecycle": {"postStart": {"exec": {"command": ["a"]}}}}), "lifecycle.postStart"),
        (pod({"readinessProbe": {"grpc": {"port": 1}}}), "readinessProbe"),
        (pod({"volumeMounts": [{"name": "d", "mountPath": "/"}]}), "mount at /"),
        (pod(initContainers=[{"name": "i"}]), "initContainers"),
        (pod(hostNetwork=True), "hostNetwork"),
        (pod(volumes=[{"name": "h", "hostPath": {"path": "/"}}]), "hostPath"),
        (pod(volumes=[{"name": "p", "projected": {"sources": []}}]), "projected"),
    ],
)
def test_what_would_run_wrongly_is_refused_by_name(bad, named):
    with pytest.raises(UnsupportedPodError, match=named):
        check_supported(bad)


def test_claims_and_ports():
    claims = [{"name": "a", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "b"}]
    assert claim_names(pod(volumes=claims)) == ["c"]
    container = {"name": "main", "ports": [{"name": "http", "containerPort": 80}]}
    assert port_number(container, "http") == 80
    assert port_number(container, "81") == port_number(container, 81) == 81
    with pytest.raises(UnsupportedPodError, match="https"):
        port_number(container, "https")
