"""Volumes with a file system of their own, and how they break.

An ext4 image in a file, mounted through a loop device: full when its claim's size is written,
read-only after an error of the file system, dead (every access an I/O error) after a shutdown.
That file is the only one of a carrier, which is such a file system itself: while the carrier is
frozen, the volume's device takes requests and completes none. A write to the page cache
succeeds, and fdatasync waits, as with a disk or a network volume that stopped answering.
The mounts lie in the cluster's mount namespace and reach every node's by propagation; with the
namespace they end, and with them the loop devices.
"""

import fcntl
import os
import struct
import subprocess
from pathlib import Path

from kraftquorum_devcluster.errors import DevClusterError
from kraftquorum_devcluster.paths import private_dir
from kraftquorum_devcluster.processnode.volumes import VolumeStore

from .frozen_file_system import Frozen, thaw
from .packages import search_path

_SHUTDOWN = 0x8004587D
"""The ioctl that ext4 and XFS share: ``_IOR('X', 125, __u32)``."""
_SHUTDOWN_NO_LOG_FLUSH = 2
FILLER = ".filler"
"""Name of the file that fills a volume."""
_DISK = "disk"
"""Name of the volume's image on its carrier."""
_CARRIER_BYTES = 16 << 20
"""What a carrier has beside an eighth more than its image, for its own records."""


class VolumeFaultError(DevClusterError):
    """The volume cannot be broken in this way."""


class DiskStore(VolumeStore):
    """A `VolumeStore` that makes file systems too."""

    def __init__(self, directory: Path) -> None:
        private_dir(directory)
        # What is mounted below from now on is seen on nodes that start later.
        _run("mount", "--bind", str(directory), str(directory))
        _run("mount", "--make-shared", str(directory))
        super().__init__(directory)
        self._images = private_dir(directory / "images")
        for image in self._images.iterdir():  # of a cluster whose data was kept
            path = directory / "data" / image.name
            self._mount(image, _carrier(path))
            self._mount(_carrier(path) / _DISK, path)

    def make_disk(self, path: Path, disk_bytes: int) -> None:
        """Mount a new ext4 of ``disk_bytes`` at ``path``, unless one is mounted.

        Raises:
            OSError: It could not be made.
        """
        if path.is_mount():
            return
        image = self._images / path.name
        self._make(image, disk_bytes + disk_bytes // 8 + _CARRIER_BYTES)
        self._mount(image, _carrier(path))
        self._make(_carrier(path) / _DISK, disk_bytes)
        self._mount(_carrier(path) / _DISK, path)
        lost = path / "lost+found"
        if lost.is_dir():
            lost.rmdir()  # a data directory begins empty

    def remove(self, volume: str, namespace: str, claim: str) -> None:
        """Unmount the volume's file system, if it has one, and delete the volume."""
        image = self._images / volume
        if image.exists():
            path = self._images.parent / "data" / volume
            thaw(_carrier(path))  # or the end of a volume that hangs would be waited for
            for mounted in (path, _carrier(path)):
                if mounted.is_mount():
                    _run("umount", "--lazy", str(mounted))
            _carrier(path).rmdir()
            image.unlink()
        super().remove(volume, namespace, claim)

    @staticmethod
    def _make(image: Path, size: int) -> None:
        with image.open("wb") as file:
            file.truncate(size)
        # No blocks are kept for root: who fills it is not told apart from others.
        _run("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", str(image))

    @staticmethod
    def _mount(image: Path, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        _run("mount", "-o", "loop,errors=remount-ro,nodelalloc", str(image), str(path))


def hang(path: Path) -> Frozen:
    """Let a volume's device stop answering, until it is thawed.

    Raises:
        VolumeFaultError: The volume has no file system of its own.
        FrozenError: It hangs already.
    """
    _device(path)
    return Frozen(_carrier(path))


def make_read_only(path: Path) -> None:
    """Let the file system of a volume meet an error, after which the kernel refuses all writes.

    Works under a pod that has files open, where a remount would be refused as busy.

    Raises:
        VolumeFaultError: The volume has no file system of its own.
    """
    trigger = Path("/sys/fs/ext4", _device(path), "trigger_fs_error")
    trigger.write_text("read-only for a test", encoding="ascii")


def shut_down(path: Path) -> None:
    """Let every further access to a volume end with an I/O error, as if the disk were gone.

    Raises:
        VolumeFaultError: The volume has no file system of its own.
    """
    _device(path)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _SHUTDOWN_NO_LOG_FLUSH))
    finally:
        os.close(descriptor)


def fill(path: Path, *, leave_bytes: int = 0) -> Path:
    """Fill a volume's own file system up with one file; returns the file, to be deleted again.

    Raises:
        VolumeFaultError: The volume has no file system of its own: the machine's would be filled.
    """
    _device(path)
    filler = path / FILLER
    free = os.statvfs(path)
    wanted = free.f_bavail * free.f_frsize - leave_bytes
    with filler.open("wb") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, max(wanted, 1))
        except OSError:  # the last blocks go to the file system's own records
            block = bytes(free.f_frsize)
            while _write(file.fileno(), block):
                if leave_bytes and _available(path) <= leave_bytes:
                    break
    return filler


def _carrier(path: Path) -> Path:
    """Where the file system is mounted that holds a volume's image."""
    return path.parent.parent / "carriers" / path.name


def _available(path: Path) -> int:
    free = os.statvfs(path)
    return free.f_bavail * free.f_frsize


def _write(descriptor: int, block: bytes) -> bool:
    try:
        return os.write(descriptor, block) == len(block)
    except OSError:
        return False


def _device(path: Path) -> str:
    """Kernel name of the loop device under a volume."""
    number = path.stat().st_dev
    link = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    name = link.resolve().name if link.exists() else ""
    if not name.startswith("loop"):
        raise VolumeFaultError(
            f"{path} has no file system of its own: take the storage class with own file systems"
        )
    return name


def _run(*command: str) -> None:
    done = subprocess.run(
        command, env={"PATH": search_path()}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise OSError(f"`{' '.join(command)}`: {done.stderr.strip()}")
