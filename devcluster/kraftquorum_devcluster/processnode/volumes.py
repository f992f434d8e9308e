"""Volumes as directories: where they lie, and what a pod's volumes point to."""

import secrets
from collections.abc import Mapping
from pathlib import Path

from kraftquorum_devcluster.errors import NotReadyToRunError
from kraftquorum_devcluster.files import remove_tree, replace_link, write_atomically
from kraftquorum_devcluster.objects import Json
from kraftquorum_devcluster.paths import private_dir

from .environment import Sources


class VolumeStore:
    """Directories of persistent volumes.

    ``data/<volume>`` holds the files; ``by-claim/<namespace>/<claim>`` is a link
    to the directory of the claim's newest volume.
    """

    def __init__(self, directory: Path) -> None:
        self._data = private_dir(directory / "data")
        self._claims = private_dir(directory / "by-claim")

    def create(
        self, volume: str, namespace: str, claim: str, disk_bytes: int | None = None
    ) -> Path:
        """Make an empty directory for a volume, unless it is there, and link the claim to it.

        Args:
            volume: Name of the volume.
            namespace: The claim's.
            claim: The claim's name.
            disk_bytes: Size of a file system of the volume's own; None for a directory.

        Raises:
            OSError: It could not be made, or this store makes no file systems.
        """
        path = private_dir(self._data / volume)
        if disk_bytes is not None:
            self.make_disk(path, disk_bytes)
        replace_link(private_dir(self._claims / namespace) / claim, path)
        return path

    def make_disk(self, path: Path, disk_bytes: int) -> None:
        """Mount a new file system at ``path``: only where there is a mount namespace to do it in.

        Raises:
            OSError: Always, here.
        """
        raise OSError(f"{path}: this node makes no file system of {disk_bytes} bytes")

    def remove(self, volume: str, namespace: str, claim: str) -> None:
        """Delete a volume's directory, and the claim's link if it still points there."""
        path = self._data / volume
        link = self._claims / namespace / claim
        if link.is_symlink() and link.readlink() == path:
            link.unlink(missing_ok=True)
        remove_tree(path)

    def owns(self, path: Path) -> bool:
        """Whether a path is one of this store's volumes: nothing else is ever deleted."""
        return path.parent == self._data


def claim_dir(state_dir: Path, namespace: str, claim: str) -> Path | None:
    """The directory behind a claim, None if nothing was provisioned for it."""
    link = state_dir / "volumes" / "by-claim" / namespace / claim
    return link.readlink() if link.is_symlink() else None


def volume_path(volume: Json) -> Path:
    """The directory of a persistent volume.

    Raises:
        NotReadyToRunError: Its kind is not a directory, or the directory is gone.
    """
    spec: Json = volume["spec"]
    source = spec.get("local") or spec.get("hostPath")
    name = volume["metadata"]["name"]
    if source is None:
        raise NotReadyToRunError("FailedMount", f"volume {name} is neither local nor hostPath")
    path = Path(source["path"])
    if not path.is_dir():
        raise NotReadyToRunError("FailedMount", f"volume {name}: {path} does not exist")
    return path


DATA = "..data"
"""The link to the present files, as the kubelet names it."""


def write_files(directory: Path, data: Mapping[str, str], volume: Json) -> None:
    """Lay the entries of a ConfigMap or Secret out as files, as the kubelet does.

    The files are links through `..data`, and a change of any of them replaces that one link. So
    files that belong together, such as a certificate and its key, change in one step.
    """
    items = volume.get("items")
    mode = int(volume.get("defaultMode") or 0o644)
    wanted = {item["key"]: item["path"] for item in items} if items else {k: k for k in data}
    missing = next((key for key in wanted if key not in data), None)
    if missing is not None:
        raise NotReadyToRunError("FailedMount", f'no key "{missing}" for volume')
    texts = {relative: data[key] for key, relative in wanted.items()}
    link = directory / DATA
    if link.is_dir() and _content(link) == texts:
        return
    before = link.readlink() if link.is_symlink() else None
    files = directory / f"..{secrets.token_hex(8)}"
    for relative, text in texts.items():
        path = files / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text, mode)
    files.mkdir(parents=True, exist_ok=True)
    replace_link(link, Path(files.name))
    names = {Path(relative).parts[0] for relative in texts}
    for name in names:
        replace_link(directory / name, Path(DATA) / name)
    for path in directory.iterdir():
        if path.is_symlink() and path.name != DATA and path.name not in names:
            path.unlink()
    if before is not None:
        remove_tree(directory / before)


def _content(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): path.read_bytes().decode("utf-8", "surrogateescape")
        for path in directory.rglob("*")
        if path.is_file()
    }


def materialise(volume: Json, directory: Path, sources: Sources) -> None:
    """Fill a pod's ConfigMap or Secret volume; an emptyDir is just made.

    Raises:
        NotReadyToRunError: The ConfigMap or Secret, or a key of it, is missing.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for field, kind, name_field in (
        ("configMap", "ConfigMap", "name"),
        ("secret", "Secret", "secretName"),
    ):
        if (source := volume.get(field)) is not None:
            data = sources.all_of(kind, source[name_field], optional=bool(source.get("optional")))
            write_files(directory, data, source)
