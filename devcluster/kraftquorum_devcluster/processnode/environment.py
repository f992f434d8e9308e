"""A container's environment variables and its command line (pure)."""

import re
from collections.abc import Mapping

from kraftquorum_devcluster.errors import NotReadyToRunError, UnsupportedPodError
from kraftquorum_devcluster.objects import Json, child, children

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)")


class Sources:
    """ConfigMaps and Secrets of a namespace, decoded to text or bytes."""

    def __init__(
        self,
        config_maps: Mapping[str, Mapping[str, str]],
        secrets: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._data = {"ConfigMap": config_maps, "Secret": secrets}

    def all_of(self, kind: str, name: str, *, optional: bool) -> Mapping[str, str]:
        """All entries of one object.

        Raises:
            NotReadyToRunError: There is no such object, and it is not optional.
        """
        if (data := self._data[kind].get(name)) is not None:
            return data
        if optional:
            return {}
        raise NotReadyToRunError("CreateContainerConfigError", f'{kind} "{name}" not found')

    def one_of(self, kind: str, name: str, key: str, *, optional: bool) -> str | None:
        """One entry of an object, None if it is missing and optional.

        Raises:
            NotReadyToRunError: It is missing, and it is not optional.
        """
        data = self.all_of(kind, name, optional=optional)
        if key not in data and not optional:
            raise NotReadyToRunError(
                "CreateContainerConfigError", f'no key "{key}" in {kind} "{name}"'
            )
        return data.get(key)


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Expand ``$(NAME)``; ``$$`` stands for ``$``, unknown names stay as written."""

    def replace(match: re.Match[str]) -> str:
        if match.group() == "$$":
            return "$"
        return variables.get(match.group(1), match.group())

    return _REFERENCE.sub(replace, text)


def container_environment(
    container: Json, pod: Json, sources: Sources, pod_ip: str, host_ip: str
) -> dict[str, str]:
    """The variables that the container's ``envFrom`` and ``env`` give.

    Raises:
        NotReadyToRunError: A ConfigMap or Secret is missing.
        UnsupportedPodError: A source that the process node does not know.
    """
    variables: dict[str, str] = {}
    for source in children(container, "envFrom"):
        for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if reference := source.get(field):
                data = sources.all_of(
                    kind, reference["name"], optional=bool(reference.get("optional"))
                )
                prefix = source.get("prefix") or ""
                variables.update({prefix + key: value for key, value in data.items()})
    for entry in children(container, "env"):
        value = _value(entry, pod, sources, pod_ip, host_ip, variables)
        if value is not None:
            variables[entry["name"]] = value
    return variables


def own_address(container: Json, pod_ip: str) -> dict[str, str]:
    """Variables by which a node listens on its pod's address, unless the container says where.

    A pod here has no network of its own: on every address it would meet the other pods. Commands
    in the pod ask it there as well, since it does not listen on localhost.
    """
    variables: dict[str, str] = {}
    for port in children(container, "ports"):
        where = f"{pod_ip}:{port['containerPort']}"
        if port.get("name") in {"peer", "api"}:
            variables[f"RAFTNODE_{port['name'].upper()}_LISTEN"] = where
        if port.get("name") == "api":
            variables["RAFTNODE_BOOTSTRAP_SERVER"] = where
    return variables


def _value(
    entry: Json,
    pod: Json,
    sources: Sources,
    pod_ip: str,
    host_ip: str,
    variables: Mapping[str, str],
) -> str | None:
    match entry.get("valueFrom"):
        case None:
            return expand(entry.get("value") or "", variables)
        case {"fieldRef": {"fieldPath": str(path)}}:
            return field_value(path, pod, pod_ip, host_ip)
        case {"configMapKeyRef": reference}:
            kind = "ConfigMap"
        case {"secretKeyRef": reference}:
            kind = "Secret"
        case other:
            raise UnsupportedPodError(f"env {entry['name']}: valueFrom {sorted(other)}")
    return sources.one_of(
        kind, reference["name"], reference["key"], optional=bool(reference.get("optional"))
    )


_MAP_FIELD = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


def field_value(path: str, pod: Json, pod_ip: str, host_ip: str) -> str:
    """What a ``fieldRef`` means for this pod.

    Raises:
        UnsupportedPodError: A field that is not known here.
    """
    metadata: Json = pod["metadata"]
    spec: Json = pod["spec"]
    known = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
    }
    if path in known:
        return str(known[path])
    if match := _MAP_FIELD.fullmatch(path):
        return str(child(metadata, match.group(1)).get(match.group(2), ""))
    raise UnsupportedPodError(f"fieldRef {path}")
