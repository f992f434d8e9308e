"""How far the log of running nodes is committed, where those that answer know of less."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kraftquorum_pipeline.datasource import LogReader, LogStreamReader
from kraftquorum_pipeline.errors import (
    ClusterIdError,
    DivergedError,
    OptionError,
    UnreachableError,
)
from kraftquorum_pipeline.source.nodes import NodeLog
from kraftquorum_pipeline.source.options import parse_options
from proofkit.localquorum import eventually
from proofkit.memoryservice import MemoryService
from raftnode.api.errors import refusal
from raftnode.api.server import ApiServer, make_app
from raftnode.core.types import Endpoint


class Node(MemoryService):
    """A node that has the whole log, and says that less of it is committed, as `knows` has it.

    It says that it is caught up whatever it knows: so do followers of a leader that does not know.
    """

    knows: int
    elected = True
    confirmed = True
    asked = 0

    def describe_node(self):
        info = super().describe_node()
        return info.model_copy(update={"high_watermark": self.knows, "caught_up": True})

    async def describe_quorum(self, *, confirmed, timeout_ms):
        info = await super().describe_quorum(confirmed=confirmed, timeout_ms=timeout_ms)
        self.asked += 1
        if confirmed and not self.confirmed:
            raise refusal("NOT_CONFIRMED", "no majority answered")
        told = {"high_watermark": self.knows, "epoch_committed": self.elected}
        return info.model_copy(update=told)

    async def read(self, offset, *, max_bytes, max_wait_ms):
        if offset >= self.knows:
            await asyncio.sleep(max_wait_ms / 1000)
        page = await super().read(offset, max_bytes=max_bytes, max_wait_ms=0)
        records = tuple(one for one in page.records if one.offset < self.knows)
        return type(page)(
            records=records,
            next_offset=type(page.next_offset)(offset + len(records)),
            high_watermark=type(page.high_watermark)(self.knows),
            log_start_offset=page.log_start_offset,
        )


@asynccontextmanager
async def two_nodes(records=40):
    """One that leads and one that follows it, with so many records and one for each beginning."""
    leader, follower = Node(1), Node(2)
    servers = []
    try:
        for node in (leader, follower):
            server = ApiServer(
                make_app(node, registry=CollectorRegistry(), version="1"), shutdown_grace_ms=0
            )
            node.api_endpoint = await server.start(Endpoint("127.0.0.1", 0))
            servers.append(server)
            for number in range(records):
                node._write(value=b"%d" % number)
            node.knows = len(node._log)
        follower.follow(leader.key, leader.api_endpoint)
        yield leader, follower
    finally:
        for server in servers:
            await server.stop()


def options_of(*nodes, **more):
    servers = ",".join(str(node.api_endpoint) for node in nodes)
    return parse_options({"bootstrapServers": servers, "timeoutMs": "1500", **more})


async def looked(options, **how):
    return await asyncio.to_thread(NodeLog(options).look, **how)


def test_who_leads_is_asked_where_the_followers_know_of_less(run_async):
    async def work() -> None:
        async with two_nodes() as (leader, follower):
            follower.knows = 5
            options = options_of(follower)
            assert (await looked(options)).end == 5
            assert leader.asked == 0
            state = await looked(options, surely=True)
            assert (state.end, state.sure) == (leader.knows, True)

    run_async(work)


def test_an_end_that_was_asked_for_is_looked_for_where_it_is_known(run_async):
    async def work() -> None:
        async with two_nodes() as (leader, follower):
            follower.knows, end = 5, leader.knows

            def planned(end):
                return LogReader(options_of(follower, endingOffset=str(end))).partitions()

            [part] = await asyncio.to_thread(planned, 5)
            assert (part.part.end, leader.asked) == (5, 0)
            [part] = await asyncio.to_thread(planned, end)
            assert part.part.end == end
            with pytest.raises(
                OptionError, match=f"{end + 1} is too high, .* is committed up to offset {end}"
            ):
                await asyncio.to_thread(planned, end + 1)

    run_async(work)


def test_a_leader_that_does_not_know_yet_what_its_predecessor_committed_is_waited_for(run_async):
    async def work() -> None:
        async with two_nodes() as (leader, follower):
            end, leader.knows, follower.knows = leader.knows, 5, 5
            leader.elected = False
            looking = asyncio.ensure_future(  # noqa: TID251
                looked(options_of(leader, follower, timeoutMs="60000"), surely=True)
            )

            async def asked_again():
                return True if leader.asked > 2 else None

            await eventually(asked_again, within_s=60, what="the leader to be asked again")
            assert not looking.done()
            leader.knows, leader.elected = end, True
            assert (await looking).end == end

    run_async(work)


@pytest.mark.parametrize("lacks", ["elected", "confirmed"])
def test_without_a_leader_that_knows_and_is_one_there_is_an_error_and_no_end(run_async, lacks):
    async def work() -> None:
        async with two_nodes() as (leader, follower):
            leader.knows, follower.knows = 5, 4
            setattr(leader, lacks, False)
            options = options_of(leader, follower)
            with pytest.raises(
                UnreachableError,
                match="unknown how far the log is committed: up to offset 5 or further",
            ):
                await looked(options, surely=True)
            stream = LogStreamReader(options)
            with pytest.raises(
                UnreachableError,
                match="unknown how far the log is committed: up to offset 5 or further",
            ):
                await asyncio.to_thread(stream.prepareForTriggerAvailableNow)
            assert (await looked(options)).end == 5

    run_async(work)


def test_who_leads_is_of_the_same_cluster(run_async):
    async def work() -> None:
        async with two_nodes() as (leader, follower):
            leader._cluster_id = "other"
            with pytest.raises(ClusterIdError, match="is of memory, the leader is of other"):
                await looked(options_of(follower), surely=True)

    run_async(work)


def test_a_run_goes_to_its_end_though_only_a_node_answers_by_now_that_knows_of_less(run_async):
    """Or it ends with an error: never early and well."""

    async def work() -> None:
        async with two_nodes() as (leader, follower):
            follower.knows = 5
            stream = LogStreamReader(options_of(follower))
            await asyncio.to_thread(stream.prepareForTriggerAvailableNow)
            start = await asyncio.to_thread(stream.initialOffset)
            leader.follow(follower.key, follower.api_endpoint)
            end = leader.knows
            stream._looked_s = 0.0

            def reached():
                return stream.latestOffset(start, ReadAllAvailable())["offset"]

            reason = f"offset {end - 1}: committed before, but no node returned it in time"
            with pytest.raises(UnreachableError, match=reason):
                await asyncio.to_thread(reached)
            assert stream._state.end == 5
            follower.knows = end
            assert await asyncio.to_thread(reached) == end
            # What is committed later is of the next run.
            follower._write(value=b"later")
            follower.knows = end + 1
            stream._looked_s = 0.0
            assert await asyncio.to_thread(reached) == end

    run_async(work)


def test_a_checkpoint_that_is_ahead_of_all_that_is_committed_is_of_another_log(run_async):
    async def work() -> None:
        async with two_nodes() as (leader, follower):
            stream = LogStreamReader(options_of(leader, follower))
            await asyncio.to_thread(stream.prepareForTriggerAvailableNow)
            ahead = {"cluster": "memory", "offset": leader.knows + 7, "epoch": 1}
            with pytest.raises(DivergedError, match=rf"only {leader.knows} records are committed"):
                await asyncio.to_thread(stream.latestOffset, ahead, ReadAllAvailable())

    run_async(work)
