"""The Kubernetes API, as few verbs over dicts, on the official client's connection.

Every DELETE here carries a UID and every change of a number a resourceVersion
(S21): there is no method without. Bodies are dicts, so that the client's
thousands of models are never imported.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, cast

import aiohttp
from kubernetes.aio import config as _kube_config
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException

from kraftquorum_operator import names
from kraftquorum_operator.errors import (
    ConflictError,
    GoneError,
    KubeError,
    KubeUnavailableError,
    NoSuchObjectError,
    NotFoundError,
    RefusedError,
    SettingsError,
)
from kraftquorum_operator.model.objects import Body

# The client's functions carry no types.
_load = cast("Any", _kube_config)

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
JSON = "application/json"
JSON_OR_KEYS = f"application/jwk-set+json, {JSON}"
"""The API server publishes its keys as this type alone, and answers 406 to other requests."""

CONNECTIONS_MAX = 100
"""Requests to the API server at once; further ones wait."""

WATCH_S = 240
"""How long the API server keeps a watch."""

WATCH_SILENT_S = 90.0
"""A watch without an event for this long is broken: bookmarks come each minute."""

_RESOURCES = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "Event": "/api/v1/namespaces/{}/events",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "Service": "/api/v1/namespaces/{}/services",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "Certificate": "/apis/cert-manager.io/v1/namespaces/{}/certificates",
    "Issuer": "/apis/cert-manager.io/v1/namespaces/{}/issuers",
    "ClusterIssuer": "/apis/cert-manager.io/v1/clusterissuers",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    names.KIND: f"/apis/{names.API_VERSION}/namespaces/{{}}/{names.PLURAL}",
    names.KAFKA_KIND: f"/apis/{names.API_VERSION}/namespaces/{{}}/{names.KAFKA_PLURAL}",
}


def _require_file(name: str) -> None:
    """Refuse a missing file, which the client would treat as empty."""
    if not Path(name).is_file():
        msg = "there is no such file"
        raise ConfigException(msg)


def path(kind: str, namespace: str | None, name: str | None = None, subresource: str = "") -> str:
    """The URL path of an object or of all objects of a kind; no namespace: in all of them."""
    place = _RESOURCES[kind]
    place = place.replace("/namespaces/{}", "") if namespace is None else place.format(namespace)
    return "/".join(part for part in (place, name, subresource) if part)


class KubeClient:
    """A connection to one API server.

    Close it with `close`. Every method raises `KubeError` (see `errors.py`).
    """

    def __init__(self, configuration: Configuration, timeout_s: float) -> None:
        self._api = cast("Any", ApiClient(configuration))
        self._timeout_s = timeout_s
        self.on_request: Callable[[str, str, float], None] = lambda _method, _result, _seconds: None
        """Called after each request with its verb, the class of its status and its seconds."""

    @classmethod
    async def connect(
        cls, kubeconfig: str | None, timeout_s: float, *, connections_max: int = CONNECTIONS_MAX
    ) -> KubeClient:
        """Read the configuration: a file, else the pod's service account, else the default file.

        Args:
            kubeconfig: the file; None: none is named.
            timeout_s: how long a request may take.
            connections_max: how many requests are under way at once, at most; 0: any number.

        Raises:
            SettingsError: no configuration can be read.
        """
        configuration = Configuration()
        configuration.connection_pool_maxsize = connections_max
        try:
            if kubeconfig is None:
                try:
                    _load.load_incluster_config(client_configuration=configuration)
                except ConfigException:
                    await _load.load_kube_config(client_configuration=configuration)
            else:
                _require_file(kubeconfig)
                await _load.load_kube_config(
                    config_file=kubeconfig, client_configuration=configuration
                )
        except (ConfigException, OSError) as error:
            where = kubeconfig or "the service account or the default kubeconfig"
            msg = f"cannot read the address of the API server from {where}: {error}"
            raise SettingsError(msg) from error
        return cls(configuration, timeout_s)

    async def close(self) -> None:
        """Close all connections."""
        await self._api.close()

    async def probe(self, plural: str = names.PLURAL) -> None:
        """Check that the API server serves a resource of ours.

        Raises:
            NotFoundError: the API server answers, and does not have the CRD.
        """
        answer = await self._request("GET", f"/apis/{names.API_VERSION}")
        served = cast("list[Body]", answer.get("resources") or [])
        if plural not in {resource.get("name") for resource in served}:
            raise NotFoundError(404, "NotFound", f"{names.API_VERSION} has no {plural}")

    async def version(self) -> tuple[int, int] | None:
        """Major and minor version of the API server; None: its answer has none."""
        try:
            answer = await self._request("GET", "/version")
            minor = re.match(r"\d+", str(answer["minor"]))
            return (int(answer["major"]), int(minor.group())) if minor else None
        except (RefusedError, NotFoundError, KeyError, ValueError):
            return None

    async def may(
        self, verb: str, group: str, resource: str, *, namespace: str | None, name: str | None
    ) -> bool:
        """Ask whether we may do something, without doing it.

        Args:
            verb: as in a role.
            group: API group, empty for the core.
            resource: plural, with `/subresource` if it is about that.
            namespace: None: in all of them.
            name: None: any object.
        """
        plural, _, subresource = resource.partition("/")
        asked = {
            "verb": verb,
            "group": group,
            "resource": plural,
            "subresource": subresource,
            "namespace": namespace or "",
            "name": name or "",
        }
        status = await self.review(
            "authorization.k8s.io",
            "selfsubjectaccessreviews",
            "SelfSubjectAccessReview",
            {"resourceAttributes": asked},
        )
        return bool(status["allowed"])

    async def review(self, group: str, plural: str, kind: str, spec: Body) -> Body:
        """Ask for a review, which is an object that the API server answers and does not keep.

        Returns:
            The status of the review.
        """
        body: Body = {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}
        answer = await self._request("POST", f"/apis/{group}/v1/{plural}", body=body)
        return cast("Body", answer.get("status") or {})

    async def get(self, kind: str, namespace: str, name: str) -> Body | None:
        """Read one object; None if it is not there.

        Raises:
            NotFoundError: the API server does not serve the kind now, so that the object may exist.
        """
        try:
            return await self._request("GET", path(kind, namespace, name))
        except NoSuchObjectError:
            return None

    async def read_url(self, url: str) -> Body:
        """Read what is no resource, such as the keys of the cluster."""
        return await self._request("GET", url, accept=JSON_OR_KEYS)

    async def list(
        self, kind: str, namespace: str, selector: str = "", *, fields: str = ""
    ) -> list[Body]:
        """Read all objects of a kind, consistently (not from the server's cache).

        Args:
            kind: of the objects.
            namespace: of the objects.
            selector: of their labels.
            fields: a field selector.
        """
        given = {"labelSelector": selector, "fieldSelector": fields}
        query = [(key, value) for key, value in given.items() if value]
        answer = await self._request("GET", path(kind, namespace), query=query)
        return cast("list[Body]", answer.get("items") or [])

    async def list_all(
        self, kind: str, namespace: str | None, selector: str
    ) -> tuple[list[Body], str]:
        """Read all objects of a kind for a cache that a watch keeps up to date.

        Args:
            kind: of the objects.
            namespace: of the objects; None: all.
            selector: of their labels.

        Returns:
            The objects, and the resourceVersion from which to watch.
        """
        query = [("labelSelector", selector)] if selector else []
        answer = await self._request("GET", path(kind, namespace), query=query)
        api = {"apiVersion": answer["apiVersion"], "kind": kind}
        items = [item | api for item in cast("list[Body]", answer.get("items") or [])]
        return items, str(answer["metadata"]["resourceVersion"])

    async def watch(
        self, kind: str, namespace: str | None, selector: str, version: str
    ) -> AsyncGenerator[tuple[str, Body]]:
        """Follow the objects of a kind, until the server ends the watch.

        Args:
            kind: of the objects.
            namespace: of the objects; None: all.
            selector: of their labels.
            version: what `list_all` or the last event had.

        Yields:
            ADDED, MODIFIED, DELETED or BOOKMARK with the object.

        Raises:
            GoneError: the version is too old; list again.
        """
        query = [
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", version),
            ("timeoutSeconds", str(WATCH_S)),
            *([("labelSelector", selector)] if selector else []),
        ]
        url = path(kind, namespace)
        try:
            prepared = await self._api.param_serialize(
                "GET", url, query_params=query, auth_settings=["BearerToken"]
            )
            timeout = aiohttp.ClientTimeout(sock_connect=self._timeout_s, sock_read=WATCH_SILENT_S)
            response = await self._api.call_api(*prepared, _request_timeout=timeout)
            status = int(response.status)
            if status >= 300:
                raise _error(status, _parse(await response.read()), f"WATCH {url}")
            async with response.response as stream:
                async for line in _lines(stream.content):
                    event = cast("Body", json.loads(line))
                    if event["type"] == "ERROR":
                        why = cast("Body", event["object"])
                        raise _error(int(why.get("code") or 500), why, f"WATCH {url}")
                    yield str(event["type"]), cast("Body", event["object"])
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            msg = f"WATCH {url}: {type(error).__name__}: {error}"
            raise KubeUnavailableError(0, "Unreachable", msg) from error

    async def create(self, body: Body) -> Body:
        """Create an object, once.

        Raises:
            ConflictError: it exists already.
        """
        meta = body["metadata"]
        return await self._request(
            "POST",
            path(body["kind"], meta["namespace"]),
            query=[("fieldManager", names.MANAGER)],
            body=body,
        )

    async def apply(self, body: Body, subresource: str = "") -> Body:
        """Server-side apply: create the object or make the fields that we own as given."""
        meta = body["metadata"]
        return await self._request(
            "PATCH",
            path(body["kind"], meta["namespace"], meta["name"], subresource),
            query=[("fieldManager", names.MANAGER), ("force", "true")],
            body=body,
            content_type=APPLY,
        )

    async def patch(
        self,
        kind: str,
        namespace: str,
        name: str,
        *,
        uid: str,
        change: Body,
        subresource: str = "",
    ) -> Body:
        """Merge a change into the object with this UID.

        Raises:
            ConflictError: another object has the name now, or, if the change carries a
                resourceVersion, another client changed it meanwhile.
        """
        meta = cast("Body", change.get("metadata") or {}) | {"uid": uid}
        return await self._request(
            "PATCH",
            path(kind, namespace, name, subresource),
            query=[("fieldManager", names.MANAGER)],
            body=change | {"metadata": meta},
            content_type=MERGE,
        )

    async def replace(self, body: Body) -> Body:
        """Write an object back with the resourceVersion that it was read with."""
        meta = body["metadata"]
        target = path(body["kind"], meta["namespace"], meta["name"])
        query = [("fieldManager", names.MANAGER)]
        return await self._request("PUT", target, query=query, body=body)

    async def delete(
        self, kind: str, namespace: str, name: str, *, uid: str, version: str | None = None
    ) -> None:
        """Delete the object with this UID; nothing happens if it is not there.

        Args:
            kind: of the object.
            namespace: of the object.
            name: of the object.
            uid: of the object.
            version: the resourceVersion that it must still have; None: any.

        Raises:
            ConflictError: another object has the name now, or it has another version.
        """
        preconditions = {"uid": uid} | ({"resourceVersion": version} if version else {})
        options: Body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
            "propagationPolicy": "Background",
        }
        try:
            await self._request("DELETE", path(kind, namespace, name), body=options)
        except NotFoundError:
            return

    async def evict(self, namespace: str, name: str, *, uid: str) -> None:
        """Evict the pod with this UID, as a drain does; nothing happens if it is not there.

        Raises:
            ConflictError: another pod has the name now.
            KubeUnavailableError: with status 429: its disruption budget does not allow it now.
        """
        meta = {"namespace": namespace, "name": name}
        body: Body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": meta,
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        try:
            await self._request("POST", path("Pod", namespace, name, "eviction"), body=body)
        except NotFoundError:
            return

    async def _request(
        self,
        method: str,
        url: str,
        *,
        query: list[tuple[str, str]] | None = None,
        body: Body | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Body:
        headers = {"Accept": accept, "Content-Type": content_type}
        result, started = "unreachable", time.monotonic()
        try:
            prepared = await self._api.param_serialize(
                method,
                url,
                query_params=query or [],
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
            response = await self._api.call_api(*prepared, _request_timeout=self._timeout_s)
            raw = cast("bytes", await response.read())
            result = _class_of(int(response.status))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            msg = f"{method} {url}: {type(error).__name__}: {error}"
            raise KubeUnavailableError(0, "Unreachable", msg) from error
        finally:
            self.on_request(method, result, time.monotonic() - started)
        status = int(response.status)
        answer = _parse(raw)
        if status < 300:
            return answer
        error = _error(status, answer, f"{method} {url}")
        error.retry_after_s = _retry_after_s(response.getheader("Retry-After"))
        raise error


async def _lines(stream: aiohttp.StreamReader) -> AsyncGenerator[bytes]:
    """The lines of an answer, of any length: aiohttp's own reader refuses long ones."""
    begun = bytearray()
    async for chunk in stream.iter_any():
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield bytes(begun + end)
            begun.clear()
        begun += rest
    if begun:
        yield bytes(begun)


def _parse(raw: bytes) -> Body:
    try:
        return cast("Body", json.loads(raw)) if raw else {}
    except ValueError:
        return {"message": raw[:200].decode(errors="replace")}


def _retry_after_s(given: str | None) -> float:
    """How long the API server asks to wait; it gives whole seconds, and no dates."""
    return float(given) if given is not None and re.fullmatch(r"\d{1,6}", given) else 0.0


def _class_of(status: int) -> str:
    """A status as a metric's label: those that mean something to us by themselves."""
    return str(status) if status in {404, 409, 410, 429} else f"{status // 100}xx"


def _error(status: int, answer: Body, what: str) -> KubeError:
    reason = str(answer.get("reason") or "")
    message = f"{what}: {status} {answer.get('message') or reason}"
    match status:
        case 404 if cast("Body", answer.get("details") or {}).get("name"):
            return NoSuchObjectError(status, reason, message)
        case 404:
            return NotFoundError(status, reason, message)
        case 409:
            return ConflictError(status, reason, message)
        case 410:
            return GoneError(status, reason, message)
        case 422 if _is_of_another_uid(answer):
            return ConflictError(status, reason, message)
        case 429:
            return KubeUnavailableError(status, reason, message)
        case _ if status >= 500:
            return KubeUnavailableError(status, reason, message)
        case _:
            return RefusedError(status, reason, message)


def _is_of_another_uid(answer: Body) -> bool:
    """Whether a patch was refused because its UID is not the object's: Kubernetes answers 422."""
    details = cast("Body", answer.get("details") or {})
    causes = cast("list[Body]", details.get("causes") or [])
    return any(cause.get("field") == "metadata.uid" for cause in causes)
