"""Reads what a pod names: ConfigMaps, Secrets, the volumes of its claims."""

import base64
from collections.abc import Iterable

from kraftquorum_devcluster.apiclient import ApiClient
from kraftquorum_devcluster.errors import ApiError, NotReadyToRunError
from kraftquorum_devcluster.objects import Json, child, children

from .environment import Sources


def named_sources(spec: Json) -> set[tuple[str, str]]:
    """(kind, name) of every ConfigMap and Secret in a pod's spec."""
    named: set[tuple[str, str]] = set()
    for volume in children(spec, "volumes"):
        if volume.get("configMap"):
            named.add(("ConfigMap", volume["configMap"]["name"]))
        if volume.get("secret"):
            named.add(("Secret", volume["secret"]["secretName"]))
    for container in spec["containers"]:
        for source in children(container, "envFrom"):
            named |= _references(source, "configMapRef", "secretRef")
        for entry in children(container, "env"):
            named |= _references(child(entry, "valueFrom"), "configMapKeyRef", "secretKeyRef")
    return named


def _references(holder: Json, config_field: str, secret_field: str) -> set[tuple[str, str]]:
    pairs = ((config_field, "ConfigMap"), (secret_field, "Secret"))
    return {(kind, holder[field]["name"]) for field, kind in pairs if holder.get(field)}


async def read_sources(api: ApiClient, namespace: str, names: Iterable[tuple[str, str]]) -> Sources:
    """Fetch them; one that does not exist is simply absent."""
    config_maps: dict[str, dict[str, str]] = {}
    secrets: dict[str, dict[str, str]] = {}
    for kind, name in sorted(names):
        plural = "configmaps" if kind == "ConfigMap" else "secrets"
        source = await _found(api, f"/api/v1/namespaces/{namespace}/{plural}/{name}")
        if source is None:
            continue
        if kind == "ConfigMap":
            binary = {k: _text(v) for k, v in child(source, "binaryData").items()}
            config_maps[name] = {**child(source, "data"), **binary}
        else:
            secrets[name] = {k: _text(v) for k, v in child(source, "data").items()}
    return Sources(config_maps, secrets)


async def read_claim(api: ApiClient, namespace: str, name: str) -> Json | None:
    """A persistent volume claim, None if it is not there.

    Read from the API server wherever a pod depends on it: what a watch has seen last may be
    older than the pod, and a pod must not get another claim's disk when the API server was put
    back in time.
    """
    return await _found(api, f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")


async def read_volume(api: ApiClient, namespace: str, claim: str) -> Json:
    """The persistent volume that a claim is bound to, read again as the kubelet does.

    Raises:
        NotReadyToRunError: The claim or its volume is not there, or they are not each other's.
    """
    persistent_claim = await read_claim(api, namespace, claim)
    name = persistent_claim["spec"].get("volumeName") if persistent_claim is not None else None
    volume = await _found(api, f"/api/v1/persistentvolumes/{name}") if name else None
    if (
        persistent_claim is None
        or volume is None
        or _owner(volume) != persistent_claim["metadata"]["uid"]
    ):
        raise NotReadyToRunError("FailedMount", f"claim {claim} is not bound")
    return volume


def _owner(volume: Json) -> str | None:
    return child(child(volume, "spec"), "claimRef").get("uid")


async def _found(api: ApiClient, path: str) -> Json | None:
    try:
        return await api.get(path)
    except ApiError as error:
        if error.status != 404:
            raise
        return None


def _text(encoded: str) -> str:
    # Bytes that are no UTF-8 survive the way to a file and back.
    return base64.b64decode(encoded).decode("utf-8", "surrogateescape")
