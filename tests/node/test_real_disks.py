"""A node on real file systems that fail in the kernel's own way; `make faults` runs these.

Each needs root for its mounts; those of the device mapper need a kernel that has it.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from proofkit.localquorum import LocalQuorum, eventually
from raftnode.errors import ExitCode

from .test_ends import end_of, write_until_it_ends

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif("KRAFTQUORUM_DISKS" not in os.environ, reason="long: run by `make faults`"),
]

TOOLS = ("mount", "umount", "mkfs.ext4", "losetup")


def run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


@dataclass
class Disk:
    """An ext4 on a loop device, its file in a tmpfs of its own."""

    root: Path
    undo: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    device: str = ""

    @property
    def memory(self) -> Path:
        return self.root / "memory"

    @property
    def image(self) -> Path:
        return self.memory / "image"

    @property
    def directory(self) -> Path:
        return self.root / "node-0"

    def make(self, size_mb: int = 128, memory_mb: int = 256) -> None:
        for path in (self.memory, self.directory):
            path.mkdir()
        self.do(
            ("mount", "-t", "tmpfs", "-o", f"size={memory_mb}m", "tmpfs", str(self.memory)),
            ("umount", "-l", str(self.memory)),
        )
        run("truncate", "-s", f"{size_mb}M", str(self.image))
        self.device = run("losetup", "--find", "--show", str(self.image))
        self.undo.append(("losetup", "-d", self.device))

    def mount(self, device: str = "", *features: str) -> None:
        options = ("-E", "lazy_itable_init=1,nodiscard", *features)
        run("mkfs.ext4", "-q", *options, device or self.device)
        self.do(
            ("mount", device or self.device, str(self.directory)),
            ("umount", "-l", str(self.directory)),
        )

    def do(self, words: tuple[str, ...], undo: tuple[str, ...]) -> None:
        run(*words)
        self.undo.append(undo)

    def close(self) -> None:
        for words in reversed(self.undo):
            subprocess.run(words, check=False, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() or not all(map(shutil.which, TOOLS)):
        pytest.skip("needs root, and " + ", ".join(TOOLS))
    made = Disk(tmp_path)
    try:
        made.make()
        yield made
    except subprocess.CalledProcessError as error:
        pytest.skip(f"may not: {' '.join(error.cmd)}: {error.stderr.strip()}")
    finally:
        made.close()


@pytest.fixture
async def one(disk: Disk, network: str):
    """A quorum of one on that disk, which the test mounts."""
    settings = {"RAFTNODE_DISK_RESERVE_BYTES": "0"}
    async with LocalQuorum(disk.root, 1, network, settings) as quorum:
        yield quorum


async def write(quorum: LocalQuorum, count: int = 20) -> int:
    for number in range(count):
        await quorum.client.put(f"key-{number}", b"%d" % number * 200)
    return count


async def check(quorum: LocalQuorum, count: int, more: int) -> None:
    for name in [*(f"key-{n}" for n in range(count)), *(f"more-{n}" for n in range(more))]:
        assert await quorum.client.get(name) is not None, f"{name} was acknowledged"


async def test_a_file_system_that_is_remounted_read_only_ends_the_node(disk: Disk, one) -> None:
    disk.mount()
    await one.form(1)
    [node] = one.nodes
    count = await write(one)
    # As the kernel does after an error of the file system, whichever process writes meanwhile.
    run("mount", "-o", "remount,abort", str(disk.directory))
    more = await write_until_it_ends(one, node, 200_000)
    code, message = await end_of(node)
    assert code == ExitCode.STORAGE_FAILED
    assert "Read-only" in message or "Input/output" in message
    node.start()
    code, _ = await end_of(node)
    assert code == ExitCode.STORAGE_FAILED, "and at each start again"
    run("umount", str(disk.directory))
    run("mount", disk.device, str(disk.directory))
    node.start()
    await one.leader()
    await check(one, count, more)


async def test_a_sync_that_fails_ends_the_node_and_is_not_tried_again(disk: Disk, one) -> None:
    """The device has less room than it says: writing back fails after the write was taken."""
    disk.mount()
    await one.form(1)
    [node] = one.nodes
    count = await write(one)
    filler = disk.memory / "filler"
    with filler.open("wb") as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 20))
    more = await write_until_it_ends(one, node, 200_000)
    code, message = await end_of(node)
    # ENOSPC out of a sync, though the file system has room: the loop device says why.
    assert code in {ExitCode.STORAGE_FAILED, ExitCode.STORAGE_FULL}
    assert "sync of" in message or "Read-only" in message, message
    assert node.output().count("node_ended") == 1
    filler.unlink()
    run("umount", str(disk.directory))
    run("mount", disk.device, str(disk.directory))
    node.start()
    await one.leader()
    await check(one, count, more)


@pytest.mark.parametrize("target", ["error", "flakey"])
async def test_a_device_that_fails_under_the_file_system(disk: Disk, one, target: str) -> None:
    if shutil.which("dmsetup") is None:
        pytest.skip("needs dmsetup")
    if target not in run("sh", "-c", "dmsetup targets || true"):
        pytest.skip(f"this kernel has no device-mapper target {target}")
    sectors = run("blockdev", "--getsz", disk.device)
    name = f"kraftquorum-{os.getpid()}"
    good = f"0 {sectors} linear {disk.device} 0"
    disk.do(("dmsetup", "create", name, "--table", good), ("dmsetup", "remove", "-f", name))
    disk.mount(f"/dev/mapper/{name}")
    await one.form(1)
    [node] = one.nodes
    count = await write(one)
    bad = {
        "error": f"0 {sectors} error",
        "flakey": f"0 {sectors} flakey {disk.device} 0 0 3600 1 error_writes",
    }
    run("dmsetup", "suspend", "--nolockfs", name)
    run("dmsetup", "load", name, "--table", bad[target])
    run("dmsetup", "resume", name)
    more = await write_until_it_ends(one, node, 200_000)
    code, _ = await end_of(node)
    assert code == ExitCode.STORAGE_FAILED
    run("umount", "-l", str(disk.directory))
    run("dmsetup", "suspend", "--nolockfs", name)
    run("dmsetup", "load", name, "--table", good)
    run("dmsetup", "resume", name)
    run("mount", f"/dev/mapper/{name}", str(disk.directory))
    node.start()
    await one.leader()
    await check(one, count, more)


@dataclass(frozen=True)
class Extent:
    """Blocks of a file that stand together: first and last in the file, and on the device."""

    first: int
    last: int
    there: int
    there_last: int


def extents(path: Path) -> list[Extent]:
    number = r"\s*(\d+)"
    row = rf"^\s*\d+:{number}\.\.{number}:{number}\.\.{number}:"
    found = re.findall(row, run("filefrag", "-e", str(path)), re.MULTILINE)
    return [Extent(*map(int, numbers)) for numbers in found]


def places(path: Path) -> dict[int, int]:
    """Where each block of a file stands on the device, whatever else it stands together with."""
    return {
        number: one.there + number - one.first
        for one in extents(path)
        for number in range(one.first, one.last + 1)
    }


def far_out(disk: Disk, path: Path, part: range, *, link: bool = False) -> None:
    """Put a file on a device of its own, a part of it beyond all the rest, and take that off.

    With `link` its name leads there, and can be changed; else it is mounted there.
    """
    data, root, image = path.read_bytes(), disk.root / "far", disk.memory / "far"
    root.mkdir()
    run("truncate", "-s", "24M", str(image))
    device = run("losetup", "--find", "--show", str(image))
    disk.undo.append(("losetup", "-d", device))
    run("mkfs.ext4", "-q", "-b", "4096", "-m", "0", "-O", "^has_journal", device)
    disk.do(("mount", device, str(root)), ("umount", "-l", str(root)))
    new, block = root / path.name, os.statvfs(root).f_bsize
    with new.open("w+b") as file:
        file.write(data[: part.start] + data[part.stop :])
        file.flush()
        os.fsync(file.fileno())
        # What stands together there is moved apart here: no room between is left for the part.
        run("fallocate", "-i", "-o", str(part.start), "-l", str(len(part)), str(new))
        file.seek(part.start)
        file.write(data[part.start : part.stop])
        file.flush()
        os.fsync(file.fileno())
    assert new.read_bytes() == data
    there, inside = places(new), range(part.start // block, part.stop // block)
    beyond = 1 + max(there[number] for number in there if number not in inside)
    lost = [number for number in inside if there[number] >= beyond]
    assert lost, f"none of blocks {inside} stands behind all others: {extents(new)}"
    if link:
        path.unlink()
        path.symlink_to(new)
    else:
        disk.do(("mount", "--bind", str(new), str(path)), ("umount", "-l", str(path)))
    # The part's blocks go, under the mounted file system.
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    os.truncate(image, beyond * block)
    run("losetup", "--set-capacity", device)
    with path.open("rb") as file, pytest.raises(OSError, match="Input/output"):
        os.pread(file.fileno(), block, lost[0] * block)


SMALL_FILES = {
    "RAFTNODE_DISK_RESERVE_BYTES": "0",
    "RAFTNODE_SEGMENT_BYTES": str(2 << 20),
    "RAFTNODE_MAX_BATCH_BYTES": str(1 << 20),
    "RAFTNODE_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS": str(1 << 20),
    "RAFTNODE_LOG_RETENTION_BYTES": "-1",
    "RAFTNODE_SCRUB_INTERVAL_MS": "3600000",
    "RAFTNODE_SCRUB_BYTES_PER_SECOND": str(1 << 30),
}


async def test_a_snapshot_on_sectors_that_cannot_be_read(disk: Disk, network: str) -> None:
    """EIO from the device, where a start begins: the one before says the same with the log."""
    disk.mount()
    async with LocalQuorum(disk.root, 1, network, SMALL_FILES) as quorum:
        await quorum.form(1)
        [node] = quorum.nodes
        more = 0

        async def two() -> list[Path] | None:
            nonlocal more
            await quorum.client.put(f"more-{more}", bytes(60_000))
            more += 1
            found = sorted(disk.directory.glob("*/*-*.checkpoint"))
            return found if len(found) == 2 and more > 30 else None

        await eventually(two, what="two snapshots")
        count = await write(quorum)
        assert node.stop() == 0
        older, newest = sorted(disk.directory.glob("*/*-*.checkpoint"))
        far_out(disk, newest, range(1 << 20, (1 << 20) + (256 << 10)), link=True)
        node.start()
        await quorum.leader()
        await check(quorum, count, more)
        damage = (await quorum.info(node)).storage.damage
        assert any(newest.name in one and "Input/output" in one for one in damage)
        assert older.exists()
        assert newest.with_name(newest.name + ".damaged").is_symlink()
        await quorum.client.put("after", b"x")
        assert node.stop() == 0


@pytest.mark.parametrize("who", ["reader", "scrub"])
async def test_sectors_that_cannot_be_read(disk: Disk, network: str, who: str) -> None:
    """EIO from the device, in the middle of an old segment, which a start does not read."""
    disk.mount()
    settings = SMALL_FILES | ({"RAFTNODE_SCRUB_INTERVAL_MS": "1000"} if who == "scrub" else {})
    async with LocalQuorum(disk.root, 1, network, settings) as quorum:
        await quorum.form(1)
        [node] = quorum.nodes
        count = await write(quorum)
        for number in range(40):
            await quorum.client.put(f"more-{number}", bytes(200_000))

        async def covered() -> bool | None:
            ends = [path.name.split("-")[0] for path in disk.directory.glob("*/*-*.checkpoint")]
            return max(map(int, ends), default=0) > count + 20 or None

        await eventually(covered, what="a snapshot beyond the first segment")
        assert node.stop() == 0
        first = min(disk.directory.glob("*/*.log"))
        part = range(1 << 20, (1 << 20) + (256 << 10))
        far_out(disk, first, part)
        node.start()
        await quorum.leader()
        await check(quorum, count, 40)  # the store is the snapshot's
        if who == "reader":
            with suppress(Exception):
                async with asyncio.timeout(20):
                    async for _ in quorum.client.follow(0):
                        pass
            code, message = await end_of(node)
            assert code == ExitCode.STORAGE_FAILED
            assert first.name in message
            assert "Input/output" in message
            return

        async def told() -> bool | None:
            damage = (await quorum.info(node)).storage.damage
            return any(first.name in one and "Input/output" in one for one in damage) or None

        await eventually(told, what="the scrub to tell")
        await quorum.client.put("after", b"x")
        assert node.process is not None
        assert node.process.poll() is None


async def test_a_full_file_system_is_refused_before_it_is_full_and_goes_on_by_itself(
    disk: Disk, network: str
) -> None:
    """S30 on a quorum of one: writes are refused, reads answered, and it resumes."""
    disk.mount()
    settings = {"RAFTNODE_DISK_RESERVE_BYTES": str(24 << 20)}
    async with LocalQuorum(disk.root, 1, network, settings) as quorum:
        await quorum.form(1)
        [node] = quorum.nodes
        count = await write(quorum)
        filler = disk.directory.joinpath("lost+found") / "filler"
        free = shutil.disk_usage(disk.directory).free
        filler.write_bytes(bytes(free - (20 << 20)))

        async def refused() -> bool | None:
            try:
                await quorum.client.put("full", b"x", timeout_ms=1000)
            except Exception as error:  # noqa: BLE001 - looked at here
                return "STORAGE_FULL" in f"{error!r} {error}" or None
            return None

        await eventually(refused, what="a refusal")
        assert (await quorum.info(node)).storage.low
        await check(quorum, count, 0)
        filler.unlink()

        async def written() -> bool:
            await quorum.client.put("room", b"again", timeout_ms=1000)
            return True

        await eventually(written, what="a write once there is room")
        assert node.process is not None
        assert node.process.poll() is None


async def test_room_that_is_reserved_for_the_log_does_not_make_its_disk_low(
    disk: Disk, network: str
) -> None:
    """It is given back instead, and what needs room is the only judge (S30)."""
    disk.mount()
    settings = {
        "RAFTNODE_DISK_RESERVE_BYTES": str(16 << 20),
        "RAFTNODE_SEGMENT_BYTES": str(32 << 20),
        "RAFTNODE_LOG_PREALLOCATE": "true",
    }
    async with LocalQuorum(disk.root, 1, network, settings) as quorum:
        await quorum.form(1)
        [node] = quorum.nodes
        count = await write(quorum)
        [active] = disk.directory.glob("*/*.log")
        assert active.stat().st_size < 1 << 20
        assert active.stat().st_blocks * 512 >= 32 << 20
        assert not (await quorum.info(node)).storage.low
        filler = disk.directory.joinpath("lost+found") / "filler"
        filler.write_bytes(bytes(shutil.disk_usage(disk.directory).free - (8 << 20)))

        async def given_back() -> bool | None:
            return active.stat().st_blocks * 512 < 2 << 20 or None

        await eventually(given_back, what="the log to give its room back")
        await asyncio.sleep(1.5)
        info = await quorum.info(node)
        assert not info.storage.low
        assert info.storage.free_bytes is not None
        assert info.storage.free_bytes > 32 << 20
        await quorum.client.put("more-0", b"x")
        # A start has no room to reserve, and goes on without.
        assert node.stop() == 0
        node.start()
        await quorum.leader()
        await check(quorum, count, 1)
        await quorum.client.put("more-1", b"x")
        assert active.stat().st_blocks * 512 < 2 << 20
        assert not (await quorum.info(node)).storage.low


async def test_a_file_system_that_cannot_reserve_is_told_once_and_written_to_all_the_same(
    disk: Disk, network: str
) -> None:
    """EOPNOTSUPP from the kernel: ext4 without extents, as ext3 was."""
    disk.mount("", "-O", "^extents,^64bit,^metadata_csum")
    settings = SMALL_FILES | {"RAFTNODE_LOG_PREALLOCATE": "true"}
    async with LocalQuorum(disk.root, 1, network, settings) as quorum:
        await quorum.form(1)
        [node] = quorum.nodes
        count = await write(quorum)
        for number in range(15):
            await quorum.client.put(f"more-{number}", bytes(400_000))
        assert len(list(disk.directory.glob("*/*.log"))) > 2
        assert node.stop() == 0
        assert node.output().count("log_not_preallocated") == 1
        assert "not supported" in node.output()
        node.start()
        await quorum.leader()
        await check(quorum, count, 15)


async def test_a_follower_without_room_goes_on_without_new_records_and_catches_up(
    tmp_path: Path, network: str
) -> None:
    """S30: it neither ends nor loses its place among those who vote and answer."""
    small = tmp_path / "node-2"
    small.mkdir()
    try:
        run("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(small))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"may not mount: {error.stderr.strip()}")
    try:
        settings = {"RAFTNODE_DISK_RESERVE_BYTES": str(32 << 20)}
        async with LocalQuorum(tmp_path, 3, network, settings) as quorum:
            await quorum.form(3)
            full = quorum.nodes[2]
            filler = small / "lost+found"
            filler.write_bytes(bytes(shutil.disk_usage(small).free - (6 << 20)))

            async def others_lead() -> bool | None:
                info = await quorum.info(full)
                leads = (await quorum.leader()) is full
                return (info.storage.low and not leads) or None

            await eventually(others_lead, what="the disk to be low")
            before = (await quorum.info(full)).log_end_offset
            for number in range(40):
                await quorum.put(f"key-{number}", bytes(400_000))
            there = await quorum.info(full)
            assert full.process is not None
            assert full.process.poll() is None
            assert there.log_end_offset < before + 40
            assert there.leader is not None
            filler.unlink()
            wanted = (await quorum.describe()).high_watermark

            async def caught_up() -> bool | None:
                return (await quorum.info(full)).durable_end_offset >= wanted or None

            await eventually(caught_up, what="the follower to catch up")
            assert full.process.poll() is None
    finally:
        run("umount", "-l", str(small))
