"""Makes a volume for each claim of our storage classes, lets it grow, and removes it afterwards.

Serves the process node and the nodes with a kubelet alike.
"""

import asyncio
import contextlib
import re
from collections.abc import Awaitable
from pathlib import Path

import aiohttp
import structlog

from kraftquorum_devcluster.apiclient import ApiClient
from kraftquorum_devcluster.errors import ApiError
from kraftquorum_devcluster.informer import Informer
from kraftquorum_devcluster.objects import Json, child

from .binder import SELECTED_NODE
from .context import NODE_NAME, PROVISIONER, STORAGE_CLASS
from .volumes import VolumeStore

_log = structlog.get_logger(__name__)

_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_RECHECK_S = 5.0
_QUANTITY = re.compile(r"(\d+)([KMG]i|)")
_SHIFTS = {"": 0, "Ki": 10, "Mi": 20, "Gi": 30}
OWN_FILE_SYSTEM = "ownFileSystem"
"""Parameter of a storage class: "true" gives each volume a file system of its claim's size."""

STORAGE_CLASS_OBJECT: Json = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {
        "name": STORAGE_CLASS,
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": PROVISIONER,
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def wants_volume(claim: Json, storage_class: Json | None) -> bool:
    """Whether a claim is ours to provision, now."""
    metadata: Json = claim["metadata"]
    if (
        storage_class is None
        or storage_class["provisioner"] != PROVISIONER
        or claim["spec"].get("volumeName")
        or metadata.get("deletionTimestamp")
    ):
        return False
    immediate = storage_class.get("volumeBindingMode") == "Immediate"
    return bool(child(metadata, "annotations").get(SELECTED_NODE)) or immediate


def disk_bytes(claim: Json, storage_class: Json) -> int | None:
    """Size of the volume's own file system; None if it is a plain directory."""
    if child(storage_class, "parameters").get(OWN_FILE_SYSTEM) != "true":
        return None
    match = _QUANTITY.fullmatch(str(claim["spec"]["resources"]["requests"]["storage"]))
    if match is None:
        raise ValueError("a size of another form than 64Mi or 1Gi")
    return int(match.group(1)) << _SHIFTS[match.group(2)]


def wants_growth(claim: Json, storage_class: Json) -> bool:
    """Whether a claim of ours asks for more than it has; only a plain directory can grow."""
    requested = claim["spec"]["resources"]["requests"]["storage"]
    return (
        storage_class["provisioner"] == PROVISIONER
        and storage_class.get("allowVolumeExpansion") is True
        and disk_bytes(claim, storage_class) is None
        and child(claim, "status").get("phase") == "Bound"
        and child(child(claim, "status"), "capacity").get("storage") != requested
        and not claim["metadata"].get("deletionTimestamp")
    )


def is_garbage(volume: Json) -> bool:
    """Whether a volume is ours and its claim has let go of it."""
    return (
        child(volume["metadata"], "annotations").get(_PROVISIONED_BY) == PROVISIONER
        and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
        and child(volume, "status").get("phase") == "Released"
        and not volume["metadata"].get("deletionTimestamp")
    )


def volume_object(claim: Json, storage_class: Json, path: Path, default_node: str) -> Json:
    """The PersistentVolume for a claim, on the node that was selected or else the default one.

    ``claimRef`` carries the claim's uid: without it, binding waits for a resync
    of the controller manager, seconds later.
    """
    metadata: Json = claim["metadata"]
    node = child(metadata, "annotations").get(SELECTED_NODE) or default_node
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": volume_name(claim),
            "annotations": {_PROVISIONED_BY: PROVISIONER},
        },
        "spec": {
            "accessModes": claim["spec"]["accessModes"],
            "capacity": claim["spec"]["resources"]["requests"],
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
            "storageClassName": storage_class["metadata"]["name"],
            "volumeMode": "Filesystem",
            "local": {"path": str(path)},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {
                                    "key": "kubernetes.io/hostname",
                                    "operator": "In",
                                    "values": [node],
                                }
                            ]
                        }
                    ]
                }
            },
        },
    }


def volume_name(claim: Json) -> str:
    """Name of a claim's volume; a claim made again gets another."""
    return f"pvc-{claim['metadata']['uid']}"


class Provisioner:
    """Looks at all claims and volumes whenever one changed."""

    def __init__(
        self,
        api: ApiClient,
        store: VolumeStore,
        claims: Informer,
        volumes: Informer,
        classes: Informer,
        *,
        default_node: str = NODE_NAME,
    ) -> None:
        self._api = api
        self._default_node = default_node
        self._store = store
        self._claims = claims
        self._volumes = volumes
        self._classes = classes
        self.wake = asyncio.Event()

    async def run(self) -> None:
        """Provision and clean up until cancelled."""
        while True:
            self.wake.clear()
            for claim in self._claims:
                storage_class = self._classes.get("", claim["spec"].get("storageClassName") or "")
                if storage_class and wants_volume(claim, storage_class):
                    await self._try(self._provision(claim, storage_class), claim)
                elif storage_class and wants_growth(claim, storage_class):
                    await self._try(self._grow(claim), claim)
            for volume in self._volumes:
                if is_garbage(volume):
                    await self._try(self._remove(volume), volume)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RECHECK_S):
                    await self.wake.wait()

    async def _try(self, work: Awaitable[None], about: Json) -> None:
        try:
            await work
        except ApiError as error:
            if error.status not in (404, 409):
                _log.warning("volume", name=about["metadata"]["name"], error=str(error))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            _log.warning("volume", name=about["metadata"]["name"], error=repr(error))

    async def _provision(self, claim: Json, storage_class: Json) -> None:
        if self._volumes.get("", volume_name(claim)) is not None:
            return
        metadata: Json = claim["metadata"]
        path = await asyncio.to_thread(
            self._store.create,
            volume_name(claim),
            metadata["namespace"],
            metadata["name"],
            disk_bytes(claim, storage_class),
        )
        await self._api.post(
            "/api/v1/persistentvolumes",
            volume_object(claim, storage_class, path, self._default_node),
        )
        _log.info("volume made", claim=metadata["name"], namespace=metadata["namespace"])

    async def _grow(self, claim: Json) -> None:
        """Report the size that is asked for, as a storage driver does once the volume has it."""
        metadata, capacity = claim["metadata"], claim["spec"]["resources"]["requests"]
        await self._api.patch(
            f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}",
            {"spec": {"capacity": capacity}},
        )
        await self._api.patch(
            f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims"
            f"/{metadata['name']}/status",
            {"metadata": {"uid": metadata["uid"]}, "status": {"capacity": capacity}},
        )
        _log.info("volume grown", claim=metadata["name"], namespace=metadata["namespace"])

    async def _remove(self, volume: Json) -> None:
        reference: Json = volume["spec"]["claimRef"]
        name = volume["metadata"]["name"]
        if self._store.owns(Path(volume["spec"]["local"]["path"])):
            await asyncio.to_thread(
                self._store.remove, name, reference["namespace"], reference["name"]
            )
        await self._api.delete(
            f"/api/v1/persistentvolumes/{name}",
            {"preconditions": {"uid": volume["metadata"]["uid"]}},
        )
        _log.info("volume removed", claim=reference["name"], namespace=reference["namespace"])
