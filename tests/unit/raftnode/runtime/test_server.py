"""A whole node in this process, on a disk in memory that fails when told to."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import math
import os
import random
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from proofkit.faultdisk import Fault, FaultDisk
from raftnode.api.model import FormRequest, RemoveVoterRequest, Replica, ResignRequest, VoterSpec
from raftnode.api.service import NewRecord
from raftnode.core.types import Offset
from raftnode.errors import (
    ConfigurationError,
    ExitCode,
    RequestError,
    StorageCorruptError,
    StorageFailedError,
    StorageIdentityError,
    StorageLostError,
    StorageStaleError,
)
from raftnode.logformat import SnapshotId
from raftnode.runtime.builders import base, listeners, node
from raftnode.runtime.disk.cold_reads import ColdReads
from raftnode.runtime.driver import Driver
from raftnode.runtime.server import Node
from raftnode.runtime.snapshots import snapshotter
from raftnode.settings import NodeSettings
from raftnode.storage.directory import stale_mark
from raftnode.storage.files import Files
from raftnode.storage.log.checkpoints import LOG_START_FILE, write_log_start
from raftnode.storage.snapshots.snapshot_reader import SnapshotReader

from .conftest import LONG_MS, LONG_S, until

RECORD = NewRecord(b"key", b"value")


class Machine:
    """A node, its disk, and what became of it."""

    def __init__(self, path, **settings) -> None:
        self.disk = FaultDisk(random.Random(0))
        self.disk.make_directory(path)
        self.settings = NodeSettings(
            node_id=1,
            log_dir=path,
            peer_listen="127.0.0.1:0",
            api_listen="127.0.0.1:0",
            disk_reserve_bytes=0,
            election_timeout_ms=100,
            request_timeout_ms=200,
            fetch_timeout_ms=200,
            fetch_max_wait_ms=50,
            storage_check_interval_ms=20,
            **settings,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Machine]:
        self.node = Node(self.settings, Files(self.disk))
        self.task = asyncio.get_running_loop().create_task(self.node.run())
        try:
            while self.node._running is None:
                await asyncio.sleep(0.001)
                if self.task.done():
                    self.task.result()
            yield self
        finally:
            self.node.request_stop()
            with contextlib.suppress(StorageFailedError, StorageLostError):
                await self.task

    @property
    def service(self):
        return self.node._running._service

    def epochs(self) -> list[int]:
        """The core's epoch, which every election of this one voter raises; none: no core runs."""
        running = self.node._running
        return [] if running is None else [running._core.replica.epoch]

    @staticmethod
    def nothing() -> asyncio.Task[None]:
        """What to await in the place of a node that has ended."""
        return asyncio.get_running_loop().create_task(asyncio.sleep(0))

    def is_marked(self) -> bool:
        return stale_mark.FILE_NAME in self.disk.listdir(str(self.settings.log_dir))

    async def is_refused_as_stale(self) -> None:
        """Start once more."""
        with pytest.raises(StorageStaleError, match="2 has seen more"):
            async with self.running():
                pass

    async def form(self) -> None:
        info = self.service.describe_node()
        own = VoterSpec(node_id=1, directory_id=info.directory_id)
        await self.service.form(FormRequest(cluster_id="c", voters=(own,)))
        await self.until_writable()

    async def until_writable(self) -> None:
        async with asyncio.timeout(LONG_S):
            while True:
                try:
                    first = NewRecord(b"first", b"1")
                    return await self.service.append([first], timeout_ms=LONG_MS)
                except RequestError:
                    await asyncio.sleep(0.005)

    def write(self, value: bytes = b"value", timeout_ms: int = LONG_MS):
        return asyncio.get_running_loop().create_task(
            self.service.append([NewRecord(b"key", value)], timeout_ms=timeout_ms)
        )

    async def died(self) -> BaseException:
        async with asyncio.timeout(LONG_S):
            [error] = await asyncio.gather(self.task, return_exceptions=True)
        return error


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


async def test_a_blank_node_says_so_and_stops(machine):
    async with machine.running():
        health = machine.service.health()
        assert not health.ready
        assert "blank" in health.reason
        for ask in (
            machine.service.append([RECORD], timeout_ms=100),
            machine.service.read(Offset(0), max_bytes=1, max_wait_ms=0),
            machine.service.read_barrier(timeout_ms=100),
            machine.service.describe_quorum(confirmed=False, timeout_ms=100),
        ):
            with pytest.raises(RequestError) as caught:
                await ask
            assert caught.value.error == "NODE_BLANK"
    assert machine.task.result() is None


async def test_records_are_read_in_the_turns_that_their_answers_are_made_in(machine):
    async with machine.running():
        await machine.form()
        async with machine.service.turns.turn():
            reading = asyncio.get_running_loop().create_task(
                machine.service.read(Offset(0), max_bytes=1, max_wait_ms=0)
            )
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(reading), 0.1)
        assert (await reading).records


async def test_one_node_forms_writes_reads_and_describes(machine):
    async with machine.running():
        await machine.form()
        done = await machine.write()
        offset = await machine.service.read_barrier(timeout_ms=LONG_MS)
        assert offset > done.last_offset
        assert machine.service.kv.get(b"key").value == b"value"
        info = await machine.service.describe_quorum(confirmed=True, timeout_ms=LONG_MS)
        assert [voter.node_id for voter in info.voters] == [1]
        assert info.confirmed
        assert machine.service.health().ready
        own = machine.service.describe_node()
        assert (own.role, own.leader_api) == ("leader", own.api_endpoint)
        last = Replica(node_id=1, directory_id=own.directory_id)
        for ask, name in (
            (machine.service.resign(ResignRequest()), "WAITING"),
            (
                machine.service.remove_voter(
                    RemoveVoterRequest(voter=last, expected=info.voter_record, timeout_ms=500)
                ),
                "LAST_VOTER",
            ),
        ):
            with pytest.raises(RequestError) as caught:
                await ask
            assert caught.value.error == name


async def scraped(machine: Machine) -> dict[str, float]:
    """Every sample without labels of the node's `/metrics`, by its name."""
    where = machine.service.describe_node().api_endpoint
    async with aiohttp.ClientSession() as http, http.get(f"http://{where}/metrics") as answer:
        families = text_string_to_metric_families(await answer.text())
        return {s.name: s.value for family in families for s in family.samples if not s.labels}


WRITES = "runtime.builders.writes:build_writes"


@pytest.mark.rule("P58", "P64")
@pytest.mark.without(WRITES, "metrics.commit_latency_seconds.observe", "lambda _: None")
@pytest.mark.without(WRITES, "metrics.fsync_seconds.observe", "lambda _: None")
@pytest.mark.without("runtime.builders.node:_refresh", "gauges.measure_idle()", "pass")
async def test_a_node_measures_its_writes(tmp_path):
    machine = Machine(tmp_path)
    started_s = time.monotonic()
    async with machine.running():
        await machine.form()
        before = await scraped(machine)
        for _ in range(6):
            done = await machine.write()
        await asyncio.sleep(1.1 * node.GAUGES_INTERVAL_S)
        after = await scraped(machine)
    took_s = time.monotonic() - started_s

    def grown(name: str) -> float:
        return after[f"raftnode_{name}"] - before[f"raftnode_{name}"]

    assert grown("commit_latency_seconds_count") == 6
    assert 0 < grown("commit_latency_seconds_sum") < took_s
    assert grown("fsync_seconds_count") >= 6
    assert 0 < grown("fsync_seconds_sum") < took_s
    assert after["raftnode_appended_records_total"] >= 6
    assert after["raftnode_high_watermark"] == done.last_offset + 1
    idle = after["raftnode_poll_idle_ratio"]
    assert math.isnan(idle), "refreshed, and this test's loop is not one that is measured"


async def test_a_leader_without_other_voters_stops_at_once_and_keeps_what_it_acknowledged(tmp_path):
    machine = Machine(tmp_path, shutdown_grace_ms=110_000)
    async with machine.running():
        await machine.form()
        done = await machine.write(b"kept")
        started = asyncio.get_running_loop().time()
        machine.node.request_stop()
        await machine.task
        took_s = asyncio.get_running_loop().time() - started
        assert took_s < machine.settings.shutdown_grace_ms / 4e3
    machine.disk.crash()
    async with machine.running():
        await machine.until_writable()
        await machine.service.read_barrier(timeout_ms=LONG_MS)
        entry = machine.service.kv.get(b"key")
        assert (entry.value, entry.offset) == (b"kept", done.last_offset)


async def test_writes_begun_before_the_stop_are_finished(machine):
    async with machine.running():
        await machine.form()
        writes = [machine.write(b"%d" % number) for number in range(20)]
        await asyncio.sleep(0)
        machine.node.request_stop()
        outcomes = await asyncio.gather(*writes)
        assert len({done.base_offset for done in outcomes}) == 20
        await machine.task


async def test_a_stopping_node_takes_nothing_on(machine):
    async with machine.running():
        await machine.form()
        machine.service.stopping = True
        for ask in (machine.write(), machine.service.read_barrier(timeout_ms=100)):
            with pytest.raises(RequestError) as caught:
                await ask
            assert caught.value.error == "SHUTTING_DOWN"
        assert not machine.service.health().ready


async def test_after_a_failed_fsync_nothing_is_acknowledged_and_nothing_retried(machine):
    async with machine.running():
        await machine.form()
        machine.disk.faults.append(Fault("fdatasync"))
        syncs = counted(machine.disk, "fdatasync")
        first, second = machine.write(b"lost"), machine.write(b"later")
        error = await machine.died()
        assert isinstance(error, StorageFailedError)
        assert len(syncs) == 1
        for write in (first, second):
            with pytest.raises(RequestError) as caught:
                await write
            assert caught.value.error in {"LEADERSHIP_LOST", "SHUTTING_DOWN"}
    machine.disk.crash()
    async with machine.running():  # what was acknowledged before is there
        await machine.until_writable()
        await machine.service.read_barrier(timeout_ms=LONG_MS)
        assert machine.service.kv.get(b"first") is not None


async def test_a_full_disk_ends_the_node_and_harms_nothing(machine):
    async with machine.running():
        await machine.form()
        await machine.write(b"kept")
        machine.disk.faults.append(Fault("pwrite", errno.ENOSPC, path_part=".log"))
        refused = machine.write(b"x" * 1000)
        assert isinstance(await machine.died(), StorageFailedError)
        with pytest.raises(RequestError) as caught:
            await refused
        assert caught.value.outcome == "unknown"
    machine.disk.kill()
    async with machine.running():
        await machine.until_writable()
        await machine.service.read_barrier(timeout_ms=LONG_MS)
        assert machine.service.kv.get(b"key").value == b"kept"


async def test_a_disk_that_fails_while_the_node_stops_is_no_clean_end(machine):
    async with machine.running():
        await machine.form()
        machine.disk.faults.append(Fault("fdatasync"))
        write = machine.write()
        machine.node.request_stop()
        assert isinstance(await machine.died(), StorageFailedError)
        with pytest.raises(RequestError):
            await write


@pytest.mark.rule("S4")
@pytest.mark.parametrize("how", ["wipe", "swap_directory"])
async def test_a_directory_that_is_lost_ends_the_node(machine, how):
    async with machine.running():
        await machine.form()
        getattr(machine.disk, how)(machine.settings.log_dir)
        assert isinstance(await machine.died(), StorageLostError)


async def test_a_failed_vote_ends_the_node_before_anything_is_said(machine):
    async with machine.running():
        machine.disk.faults.append(Fault("fsync", path_part="quorum-state"))
        with contextlib.suppress(RequestError):
            info = machine.service.describe_node()
            own = VoterSpec(node_id=1, directory_id=info.directory_id)
            await machine.service.form(FormRequest(cluster_id="c", voters=(own,)))
        assert isinstance(await machine.died(), StorageFailedError)


@pytest.mark.rule("S2")
async def test_a_log_ahead_of_the_votes_is_refused(machine):
    """S2: a replica that forgot its votes may have voted for another in the epochs that it forgot."""
    state = machine.settings.log_dir / "__cluster_metadata-0" / "quorum-state"
    async with machine.running():
        blank = machine.disk.content(state)
        await machine.form()
    machine.disk.kill()
    machine.disk.overwrite(state, blank)
    with pytest.raises(StorageIdentityError, match="votes were lost"):
        async with machine.running():
            pass


async def test_a_port_that_is_taken_is_named(machine, tmp_path):
    other = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = other.sockets[0].getsockname()[1]
    try:
        taken = Machine(tmp_path)
        taken.settings = taken.settings.model_copy(
            update={"api_listen": type(taken.settings.api_listen)("127.0.0.1", port)}
        )
        with pytest.raises(ConfigurationError, match="api_listen"):
            async with taken.running():
                pass
    finally:
        other.close()
        await other.wait_closed()


async def test_connections_too_many_are_turned_away_and_the_rest_served(machine, monkeypatch):
    """Without a limit clients would use up the descriptors, and then the disk "fails"."""
    monkeypatch.setattr(listeners, "descriptors_for_clients", lambda _: 6)
    async with machine.running():
        api = machine.service.api_endpoint
        held = [await asyncio.open_connection(api.host, api.port) for _ in range(3)]
        for _, writer in held:
            writer.write(b"GET /v1/log?offset=9999&max_wait_ms=60000 HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(0.1)
        # All are busy: three more may ask for administration, and of more the oldest goes.
        few = [await asyncio.open_connection(api.host, api.port) for _ in range(4)]
        reader, writer = few[0]
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        reader, kept = few[-1]
        kept.write(b"GET /healthz/live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        for _, other in (*held, *few):
            other.close()


async def test_of_idle_connections_too_many_the_oldest_is_turned_away(machine, monkeypatch):
    monkeypatch.setattr(listeners, "descriptors_for_clients", lambda _: 6)
    async with machine.running():
        api = machine.service.api_endpoint
        held = [await asyncio.open_connection(api.host, api.port) for _ in range(4)]
        reader, _ = held[0]
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        for reader, kept in held[1:]:
            kept.write(b"GET /healthz/live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        for _, other in held:
            other.close()


async def test_a_client_that_leaves_takes_its_waiting_with_it(machine):
    async with machine.running():
        await machine.form()
        waiters = machine.node._running._writes.applier._waiters
        api = machine.service.api_endpoint
        _, writer = await asyncio.open_connection(api.host, api.port)
        writer.write(b"GET /v1/log?offset=9999&max_wait_ms=60000 HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(LONG_S):
            while len(waiters) < 2:  # noqa: ASYNC110 - the applier itself waits, too
                await asyncio.sleep(0.001)
            writer.close()
            while len(waiters) > 1:  # noqa: ASYNC110
                await asyncio.sleep(0.001)


def counted(disk: FaultDisk, name: str) -> list[str]:
    calls, call = [], getattr(disk, name)

    def wrapped(*args):
        calls.append(name)
        return call(*args)

    setattr(disk, name, wrapped)
    return calls


STALE = StorageStaleError("2 has seen more")


@pytest.mark.rule("S3")
@pytest.mark.parametrize("when", ["transfer_leadership", "give_up"])
async def test_a_node_that_is_told_to_be_stale_while_it_stops_is_never_started_again(
    machine, monkeypatch, when
):
    """The peer that reported it may be away at the next start, which must not depend on it (S3)."""
    do = getattr(node.Running, when)

    def told(running, *given):
        machine.node._fail(STALE)
        return do(running, *given)

    monkeypatch.setattr(node.Running, when, told)
    with pytest.raises(StorageStaleError, match="2 has seen more"):
        async with machine.running():
            await machine.form()
    monkeypatch.undo()
    await machine.is_refused_as_stale()


@pytest.mark.rule("S3")
@pytest.mark.parametrize("listens", [True, False], ids=["starts", "cannot listen"])
async def test_a_node_that_is_told_to_be_stale_while_it_starts_takes_no_part(
    machine, monkeypatch, listens
):
    """Also where the next step of the start fails, the replica is stale first of all."""
    async with machine.running():
        await machine.form()
    listen, listened = listeners.ApiServer.start, 0

    async def start(server, endpoint):
        nonlocal listened
        listened += 1
        if listened == 2:
            machine.node._fail(STALE)
            if not listens:
                raise OSError(errno.EADDRINUSE, "in use")
        return await listen(server, endpoint)

    async def run(*_):
        pytest.fail("the core handles events")

    monkeypatch.setattr(listeners.ApiServer, "start", start)
    monkeypatch.setattr(Driver, "_carry_out", run)
    with pytest.raises(StorageStaleError, match="2 has seen more"):
        async with machine.running():
            await machine.task
    assert listened == 2
    monkeypatch.undo()
    await machine.is_refused_as_stale()


@pytest.mark.rule("S3")
async def test_a_stale_storage_is_marked_before_anything_else_may_hang(machine, monkeypatch):
    """A stop may wait for a hung disk until the process is killed: the mark is there before."""
    hung = threading.Event()
    close = ColdReads.close

    def close_slowly(reads):
        hung.wait(LONG_S)
        close(reads)

    async with machine.running():
        await machine.form()
        monkeypatch.setattr(ColdReads, "close", close_slowly)
        machine.node.request_stop()
        machine.node._fail(STALE)
        marked = machine.is_marked()
        await asyncio.sleep(0.1)
        assert not machine.task.done()
        hung.set()
        with pytest.raises(StorageStaleError):
            await machine.task
        machine.task = machine.nothing()
    assert marked


@pytest.mark.rule("S3")
@pytest.mark.without(
    "runtime.server:Node._fail",
    "if not isinstance(self._error, StorageStaleError)",
    "if self._error is None",
)
@pytest.mark.parametrize(
    "first", [StorageFailedError("EIO"), StorageCorruptError("a batch"), RuntimeError("no thread")]
)
async def test_a_stale_storage_is_marked_whatever_failed_before(machine, first):
    async with machine.running():
        await machine.form()
        machine.node._fail(first)
        machine.node._fail(STALE)
        [ended] = await asyncio.gather(machine.task, return_exceptions=True)
        machine.task = machine.nothing()
        assert isinstance(ended, StorageStaleError)
    await machine.is_refused_as_stale()


@pytest.mark.rule("S3")
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
async def test_a_stale_storage_that_cannot_be_marked_says_so(machine, code):
    """Exit code 17 promises that no start opens the storage again."""
    async with machine.running():
        await machine.form()
        machine.disk.faults.append(Fault("fsync", code, path_part=stale_mark.FILE_NAME))
        machine.node._fail(STALE)
        with pytest.raises(StorageFailedError, match=r"2 has seen more.*not be marked") as raised:
            await machine.task
        machine.task = machine.nothing()
    assert not machine.is_marked()
    assert raised.value.exit_code != ExitCode.STORAGE_STALE
    assert os.strerror(code) in str(raised.value.__cause__)


async def test_a_node_takes_snapshots_and_starts_from_them(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshotter, "CHECK_INTERVAL_S", 0.01)
    machine = Machine(tmp_path, max_record_bytes_between_snapshots=2000, snapshots_retained=1)
    directory = tmp_path / "__cluster_metadata-0"

    def names() -> list[str]:
        found = machine.disk.listdir(str(directory))
        return [name for name in found if name.endswith(".checkpoint")]

    async with machine.running():
        await machine.form()
        for number in range(60):
            await machine.write(b"value %d" % number)
        async with asyncio.timeout(LONG_S):
            while not names():  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        hashed = machine.service.kv.state_hash()
        end = machine.service.kv.next_offset
    (name,) = names()
    reader = SnapshotReader(Files(machine.disk), directory / name)
    assert {record.key for record in reader.records()} == {b"key", b"first"}
    head = reader.snapshot.head
    assert [voter.node_id for voter in head.voters] == [1]
    assert (head.raft_version, head.formation_completed) == (2, True)
    covered = reader.snapshot.snapshot_id.end_offset

    async with machine.running():
        kv = machine.service.kv
        assert kv.next_offset >= covered
        written = await machine.until_writable()
        async with asyncio.timeout(LONG_S):
            while kv.next_offset <= written.base_offset:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        assert kv.get(b"key").value == b"value 59"
        records = await machine.service.read(Offset(0), max_bytes=1 << 20, max_wait_ms=0)
        assert records.records[0].offset == 0
    assert kv.next_offset > end
    assert hashed != kv.state_hash()


@pytest.mark.rule("P42", "S32")
@pytest.mark.without("runtime.builders.base:build_base", "loaded, covered)", "loaded, covered * 0)")
async def test_a_start_knows_what_a_damaged_snapshot_covers_to_be_committed(tmp_path, monkeypatch):
    """No leader that lacks what was committed may make this replica truncate it."""
    monkeypatch.setattr(snapshotter, "CHECK_INTERVAL_S", 0.01)
    machine = Machine(tmp_path, max_record_bytes_between_snapshots=2000, snapshots_retained=1)
    snapshots = []
    async with machine.running():
        await machine.form()
        for number in range(60):
            await machine.write(b"value %d" % number)
        async with asyncio.timeout(LONG_S):
            while not snapshots:
                await asyncio.sleep(0.005)
                names = machine.disk.listdir(str(tmp_path / "__cluster_metadata-0"))
                snapshots = [one for one in map(SnapshotId.of, names) if one]
    names = machine.disk.listdir(str(tmp_path / "__cluster_metadata-0"))
    (newest,) = [one for one in map(SnapshotId.of, names) if one]
    assert newest.end_offset > 0
    machine.disk.faults.append(Fault("pread", errno.EIO, path_part=newest.file_name))
    marks = []
    recover = base.recover

    def recovered(*given):
        core = recover(*given)
        marks.append(core.replica.high_watermark)
        return core

    monkeypatch.setattr(base, "recover", recovered)
    async with machine.running():
        assert marks == [newest.end_offset]


async def test_a_start_that_finishes_a_trim_says_so(tmp_path, monkeypatch):
    """The log's start has no checksum: a flipped bit looks like a trim that a crash cut off."""
    monkeypatch.setattr(snapshotter, "CHECK_INTERVAL_S", 0.001)
    machine = Machine(
        tmp_path,
        max_record_bytes_between_snapshots=9000,
        snapshots_retained=1,
        segment_bytes=4096,
        max_batch_bytes=2048,
        record_max_bytes=1024,
    )
    directory = tmp_path / "__cluster_metadata-0"

    def names(suffix: str) -> list[str]:
        found = machine.disk.listdir(str(directory))
        return sorted(name for name in found if name.endswith(suffix))

    async with machine.running():
        await machine.form()
        async with asyncio.timeout(LONG_S):
            while not names(".checkpoint"):
                await machine.write(b"value" * 100)
    second = Offset(int(names(".log")[1].split(".")[0]))
    write_log_start(Files(machine.disk), directory / LOG_START_FILE, second)
    with capture_logs() as logged:
        async with machine.running():
            await machine.until_writable()
    (told,) = [one for one in logged if one["event"] == "log_trim_finished"]
    assert (told["trimmed_from"], told["log_start"]) == (0, second)


async def test_a_node_whose_log_lacks_what_its_snapshot_covers_does_not_start(tmp_path):
    machine = Machine(tmp_path)
    async with machine.running():
        await machine.form()
    name = "00000000000000009999-0000000001.checkpoint"
    machine.disk.overwrite(tmp_path / "__cluster_metadata-0" / name, b"")
    with pytest.raises(StorageCorruptError, match="records were lost"):
        async with machine.running():
            pass


async def test_a_node_whose_newest_snapshot_cannot_be_read_starts_from_the_one_before(
    tmp_path, monkeypatch
):
    """Its log begins later: the one before, and what the log holds behind it, is everything."""
    monkeypatch.setattr(snapshotter, "CHECK_INTERVAL_S", 0.001)
    machine = Machine(
        tmp_path,
        max_record_bytes_between_snapshots=2000,
        snapshots_retained=2,
        log_retention_bytes=0,
        segment_bytes=4096,
        max_batch_bytes=2048,
        record_max_bytes=1024,
    )
    directory = tmp_path / "__cluster_metadata-0"

    def names() -> list[str]:
        found = machine.disk.listdir(str(directory))
        return sorted(name for name in found if name.endswith(".checkpoint"))

    async with machine.running():
        await machine.form()
        written = 0
        async with asyncio.timeout(LONG_S):
            while len(names()) < 2 or not machine.service.describe_node().log_start_offset:
                await machine.write(b"value %d" % written)
                written += 1
    older, newest = names()[-2:]
    kept = machine.disk.snapshot()
    machine.disk.faults.append(Fault("pread", errno.EIO, path_part=newest))
    async with machine.running():
        await machine.until_writable()
        last = b"value %d" % (written - 1)
        await until(lambda: machine.service.kv.get(b"key").value == last)
        (told,) = machine.service.describe_node().storage.damage
        assert newest in told
        # What the newest covers may not be cut off, though another state was begun with.
        committed = machine.node._running._core.replica.high_watermark
        assert committed >= SnapshotId.of(newest).end_offset
        assert machine.service.describe_node().log_start_offset > 0
    # Neither can be read: another start may be luckier, and finds all that it needs.
    machine.disk.restore(kept)
    machine.disk.faults += [Fault("pread", errno.EIO, path_part=one) for one in (older, newest)]
    with pytest.raises(StorageFailedError, match="Input/output error"):
        async with machine.running():
            pass
    assert machine.disk.faults == []
    assert names()[-2:] == [older, newest]
    async with machine.running():
        await machine.until_writable()
        await until(lambda: machine.service.kv.get(b"key").value == last)


async def test_a_node_reserves_room_for_its_segments_if_it_is_to(tmp_path):
    for wanted in (False, True):
        path = tmp_path / str(wanted)
        path.mkdir()
        machine = Machine(path, log_preallocate=wanted, segment_bytes=4 << 20)
        active = path / "__cluster_metadata-0" / f"{0:020d}.log"
        async with machine.running():
            await machine.form()
            there = machine.disk.stat(str(active))
            assert there.size + there.spare_bytes == (4 << 20 if wanted else there.size)
        assert machine.disk.stat(str(active)).spare_bytes == 0


async def test_it_keeps_twice_the_reserve_free_and_tells_what_it_does_not_reserve(tmp_path):
    for lacking in (0, 4096):
        path = tmp_path / str(lacking)
        path.mkdir()
        machine = Machine(path, log_preallocate=True, segment_bytes=4 << 20)
        # Its small files take some hundred bytes.
        machine.settings = machine.settings.model_copy(update={"disk_reserve_bytes": 1 << 20})
        machine.disk.capacity_bytes = (6 << 20) + 4096 - lacking
        active = path / "__cluster_metadata-0" / f"{0:020d}.log"
        with capture_logs() as logged:
            async with machine.running():
                there = machine.disk.stat(str(active))
        told = [one["reason"] for one in logged if one["event"] == "log_not_preallocated"]
        assert bool(there.spare_bytes) == (not lacking)
        assert len(told) == bool(lacking)
