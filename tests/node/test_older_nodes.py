"""A quorum in which some nodes do not know finished batches, as in a rolling upgrade."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from proofkit import oldernode
from proofkit.localquorum import LocalNode, LocalQuorum, eventually
from raftnode.client import QuorumClient
from raftnode.client.errors import NotDoneError, OutcomeUnknownError
from raftnode.storage.files import Files
from raftnode.storage.inspection.log_reader import find_log

from .scrapes import scrape

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.quorum_settings(RAFTNODE_LOG_RETENTION_BYTES="-1"),
]

RECORDS = 70
"""Of a kilobyte each: more than the smallest finished batch."""
WRITERS = 3
MORE = 6
"""Acknowledgements under each leader, before the next one is made."""


def batch_of(name: str) -> list[bytes]:
    return [f"{name} {number} ".encode().ljust(1024) for number in range(RECORDS)]


def name_of(value: bytes) -> str:
    return value.split()[0].decode()


@dataclass
class Appends:
    """Batches that clients have appended, by name, each sent to a leader once."""

    acknowledged: dict[str, int] = field(default_factory=dict[str, int])
    """With the first offset."""
    unknown: set[str] = field(default_factory=set[str])
    not_done: set[str] = field(default_factory=set[str])
    in_flight: int = 0
    stopped: bool = False

    async def write(self, nodes: Sequence[LocalNode], writer: int) -> None:
        number = 0
        async with QuorumClient([node.api for node in nodes], timeout_ms=20_000) as client:
            while not self.stopped:
                number += 1
                await self.append(client, f"{writer}-{number}")
                await asyncio.sleep(0.05)

    async def append(self, client: QuorumClient, name: str) -> None:
        self.in_flight += 1
        try:
            done = await client.append(batch_of(name))
        except OutcomeUnknownError:
            self.unknown.add(name)
        except NotDoneError:
            self.not_done.add(name)
        else:
            self.acknowledged[name] = done.base_offset
        finally:
            self.in_flight -= 1

    async def some_more(self) -> None:
        """Wait for acknowledgements."""
        wanted = len(self.acknowledged) + MORE

        async def look() -> bool | None:
            return len(self.acknowledged) >= wanted or None

        await eventually(look, what="acknowledgements")

    async def all_in_flight(self) -> None:
        """Wait until each writer waits for an answer."""

        async def look() -> bool | None:
            return self.in_flight == WRITERS or None

        await eventually(look, what="all writers to wait")

    def check(self, values: dict[int, bytes]) -> Counter[str]:
        """Compare with what a node has; returns how many batches of each outcome are there."""
        for name, base in self.acknowledged.items():
            assert [values.get(base + number) for number in range(RECORDS)] == batch_of(name), name
        counts = Counter(map(name_of, values.values()))
        assert set(counts.values()) == {RECORDS}, "each is there once, as a whole"
        assert set(counts) <= {*self.acknowledged, *self.unknown}
        return Counter(
            "acknowledged" if name in self.acknowledged else "unknown" for name in counts
        )


async def values_of(node: LocalNode, end: int) -> dict[int, bytes]:
    """What the node itself reads to its clients below an offset, once it is there."""
    values: dict[int, bytes] = {}
    async with QuorumClient([node.api]) as client:
        offset = 0
        async with asyncio.timeout(90):
            while offset < end:
                page = await client.read(offset, max_wait_ms=1000)
                for record in page.records:
                    if record.value is not None and record.control is None:
                        values[record.offset] = record.value
                offset = page.next_offset
    return values


def log_of(node: LocalNode) -> bytes:
    log = find_log(Files(), node.directory)
    return b"".join(piece.path.read_bytes() for piece in log.pieces)


async def operations_of(node: LocalNode) -> Counter[tuple[str, str]]:
    """How many operations of each kind and outcome the node has answered."""
    samples = (await scrape(node)).samples.get("raftnode_session_operations_total", [])
    return Counter(
        {(labels["operation"], labels["outcome"]): int(value) for labels, value in samples}
    )


@pytest.mark.extended
@pytest.mark.parametrize(
    ("first_older", "changes"),
    [({0}, False), ({0, 1}, False), ({0, 1}, True)],
    ids=["a minority is older", "a majority is older", "each restart changes the version"],
)
async def test_no_batch_is_lost_or_doubled_while_leadership_goes_between_versions(
    quorum: LocalQuorum, first_older: set[int], *, changes: bool
) -> None:
    nodes, appends, older = quorum.nodes[:3], Appends(), set(first_older)
    newer, used = nodes[0].command, set[str]()
    for number in older:
        nodes[number].make_older()
    await quorum.form(3)
    async with asyncio.TaskGroup() as group:
        for writer in range(WRITERS):
            group.create_task(appends.write(nodes, writer))
        try:
            for leader in (0, 2, 0, 1, 2, 0, 2):
                node = nodes[leader]
                await quorum.lead(node)
                await appends.some_more()
                kinds = {kind for kind, _ in await operations_of(node)}
                assert kinds <= {"append" if leader in older else "append_batch"}
                used |= kinds
                node.signal(signal.SIGSTOP)
                await appends.all_in_flight()
                node.kill()
                await appends.some_more()
                if changes:
                    older ^= {leader}
                    node.command = oldernode.COMMAND if leader in older else newer
                node.start()
                await quorum.wait_running([node])
        finally:
            appends.stopped = True
    assert used == {"append", "append_batch"}
    end = (await quorum.describe()).high_watermark
    values = [await values_of(node, end) for node in nodes]
    assert values[0] == values[1] == values[2]
    there = appends.check(values[0])
    for node in nodes:
        node.kill()
    logs = [log_of(node) for node in nodes]
    common = min(map(len, logs))
    assert common > len(appends.acknowledged) * RECORDS * 1024
    assert logs[0][:common] == logs[1][:common] == logs[2][:common]
    print(  # noqa: T201
        f"{len(appends.acknowledged)} acknowledged, {len(appends.unknown)} unknown of which "
        f"{there['unknown']} are there, {len(appends.not_done)} not done; {common} equal bytes"
    )


@pytest.mark.without("client.exchange:AppendCall.for_session", "and smallest and", "and")
async def test_a_call_goes_from_a_newer_follower_to_an_older_leader_and_back(
    quorum: LocalQuorum,
) -> None:
    older, newer = quorum.nodes[:2]
    older.make_older()
    await quorum.form(3)
    appends = Appends()
    async with QuorumClient([newer.api]) as client:
        for leader in (newer, older, newer):
            await quorum.lead(leader)
            await appends.append(client, f"{len(appends.acknowledged)}")
    assert len(appends.acknowledged) == 3, "a refusal of a follower says that nothing was done"
    by_older, by_newer = await operations_of(older), await operations_of(newer)
    assert by_newer["append_batch", "ok"] == 2
    assert by_newer["append_batch", "not_done"] >= 1, "it was asked first, as a follower"
    assert by_older["append", "ok"] == 1
    assert {kind for kind, _ in by_older} == {"append"}
    appends.check(await values_of(older, (await quorum.describe()).high_watermark))


@pytest.mark.without("client.requests_to_nodes:Asker._attempt", "if call.write:", "if False:")
@pytest.mark.parametrize("reaches", [True, False], ids=["reaches the others", "stays there"])
async def test_a_batch_in_flight_to_a_leader_that_dies_is_reported_unknown_and_not_sent_again(
    quorum: LocalQuorum, *, reaches: bool
) -> None:
    first, *others = nodes = quorum.nodes[:3]
    for node in others:
        node.make_older()
    await quorum.form(3)
    await quorum.lead(first)
    appends = Appends()
    async with QuorumClient([node.api for node in nodes], timeout_ms=60_000) as client:
        await appends.append(client, "before")
        end = (await quorum.info(first)).log_end_offset
        for node in others:
            if reaches:  # it waits in their connections, as answers to their Fetches
                node.signal(signal.SIGSTOP)
            else:
                node.kill()

        async def appended() -> bool | None:
            return (await quorum.info(first)).log_end_offset >= end + RECORDS or None

        async with asyncio.TaskGroup() as group:
            group.create_task(appends.append(client, "flying"))
            await eventually(appended, what="the batch in the leader's log")
            first.kill()
            for node in others:
                if reaches:
                    node.signal(signal.SIGCONT)
                else:
                    node.start()
        assert appends.unknown == {"flying"}
        await appends.append(client, "after")
    first.start()
    assert set(appends.acknowledged) == {"before", "after"}
    end = (await quorum.describe()).high_watermark
    values = [await values_of(node, end) for node in nodes]
    assert values[0] == values[1] == values[2]
    there = appends.check(values[0])
    assert there["unknown"] == reaches
    assert there["acknowledged"] == 2
