"""Which pods can run here: everything else is refused by name (pure).

Ignored, since nothing here depends on them: images (but for `check_pullable`), resources, security
contexts, affinity, tolerations, service accounts, DNS settings, priority.
"""

from kraftquorum_devcluster.errors import NotReadyToRunError, UnsupportedPodError
from kraftquorum_devcluster.objects import Json, child, children

_POD_FIELDS = ("initContainers", "ephemeralContainers", "readinessGates", "hostNetwork", "hostPID")
_CONTAINER_FIELDS = ("volumeDevices", "restartPolicyRules", "stdin", "tty")
_VOLUMES = ("persistentVolumeClaim", "configMap", "secret", "emptyDir")
_PROBE_ACTIONS = ("httpGet", "tcpSocket", "exec")
_HOOK_ACTIONS = ("exec", "httpGet")
_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def check_pullable(image: str) -> None:
    """Pass any image but one of a registry that can never exist: ``*.invalid`` (RFC 6761).

    There are no images here; this is how a test has one that cannot be pulled.

    Raises:
        NotReadyToRunError: As the kubelet reports it.
    """
    registry, slash, _ = image.partition("/")
    if slash and registry.partition(":")[0].endswith(".invalid"):
        raise NotReadyToRunError(
            "ImagePullBackOff", f'Back-off pulling image "{image}": {registry}: no such host'
        )


def check_supported(pod: Json) -> None:
    """Pass a pod that can run here.

    Raises:
        UnsupportedPodError: Naming all that is not supported.
    """
    spec: Json = pod["spec"]
    problems = [f"spec.{field}" for field in _POD_FIELDS if spec.get(field)]
    for volume in children(spec, "volumes"):
        if not any(volume.get(kind) is not None for kind in _VOLUMES):
            kinds = ", ".join(sorted(set(volume) - {"name"}))
            problems.append(f"volume {volume['name']} of kind {kinds}")
    for container in spec["containers"]:
        problems.extend(_container_problems(container))
    if problems:
        raise UnsupportedPodError(f"the process node does not support: {'; '.join(problems)}")


def _container_problems(container: Json) -> list[str]:
    where = f"container {container['name']}:"
    problems = [f"{where} {field}" for field in _CONTAINER_FIELDS if container.get(field)]
    if not container.get("command"):
        problems.append(f"{where} no command (there is no image to take it from)")
    problems.extend(
        f"{where} mount at {mount['mountPath']}"
        for mount in children(container, "volumeMounts")
        if mount["mountPath"].rstrip("/") == "" or mount.get("subPathExpr")
    )
    problems.extend(
        f"{where} lifecycle.{moment} of another kind than preStop with {' or '.join(_HOOK_ACTIONS)}"
        for moment in child(container, "lifecycle")
        if moment != "preStop" or not set(_HOOK_ACTIONS) & set(container["lifecycle"][moment])
    )
    for name in _PROBES:
        probe = container.get(name)
        if probe and not any(action in probe for action in _PROBE_ACTIONS):
            problems.append(f"{where} {name} of another kind than {', '.join(_PROBE_ACTIONS)}")
    return problems


def claim_names(pod: Json) -> list[str]:
    """The claims that a pod mounts."""
    return [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in children(pod["spec"], "volumes")
        if volume.get("persistentVolumeClaim")
    ]


def stop_hook(container: Json) -> Json | None:
    """The handler that runs before the container is stopped."""
    return child(container, "lifecycle").get("preStop")


def port_number(container: Json, port: int | str) -> int:
    """The number of a port that is given by number or by name.

    Raises:
        UnsupportedPodError: The container has no port of this name.
    """
    if isinstance(port, int) or port.isdigit():
        return int(port)
    for entry in children(container, "ports"):
        if entry.get("name") == port:
            return int(entry["containerPort"])
    raise UnsupportedPodError(f"container {container['name']}: no port named {port}")
