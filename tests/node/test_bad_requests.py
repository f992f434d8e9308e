"""Every row of docs/evidence/bad-requests.md, as bytes to the port of a real node.

One node leads alone; the other is a voter of two, and the test plays the second voter, which
leads it. So each request comes from whom the node must listen to, with one thing wrong in it:
over a plain connection, and over mutual TLS from a peer with a certificate of its own.
"""

import itertools
import random
import ssl
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType

from proofkit.badrequests import (
    CUT_OFF,
    SILENCE,
    TAKEN,
    TO_LEADER,
    Draft,
    Wrong,
    wrong_requests,
)
from proofkit.localquorum import CLUSTER_ID, PATIENCE_S, LocalNode, LocalQuorum, eventually
from proofkit.quorumsecurity import QuorumSecurity
from raftnode.api.model import FormRequest, VoterSpec
from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    ErrorCode,
    FetchRequest,
    FetchSnapshotRequest,
    Request,
    VoteRequest,
)
from raftnode.core.types import (
    Endpoint,
    Epoch,
    LogPosition,
    NodeId,
    Offset,
    ReplicaKey,
    format_directory_id,
)
from raftnode.logformat import decode_batches
from raftnode.transport.hello import Hello, Identity, decode_hello, encode_hello
from raftnode.wire import Codec, ErrorFrame, Frame

pytestmark = [
    pytest.mark.extended,
    pytest.mark.timeout(300),
    pytest.mark.rule("P2", "P3", "P4", "P10", "P15", "S5", "S28"),
]

EPOCH = Epoch(5)
CHANGES_STATE = {"INCONSISTENT_VOTER_SET"}
"""P18: who is not listed does not stand in turn, but its leader is gone all the same."""
CODEC = Codec(decode_batches=decode_batches)


@pytest.fixture(params=["plain", "mutual TLS"])
def security(request: pytest.FixtureRequest, tmp_path: Path) -> QuorumSecurity | None:
    """TLS between nodes or none; clients have plain connections in both."""
    if request.param == "plain":
        return None
    return QuorumSecurity(tmp_path / "security", CLUSTER_ID, api_tls="disabled", tokens=False)


@dataclass
class Peer:
    """The test's end of a connection, which is opened again when it was cut off."""

    session: ClientSession
    quorum: LocalQuorum
    node: LocalNode
    own: ReplicaKey
    to: ReplicaKey
    socket: ClientWebSocketResponse | None = None
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    async def open(self) -> ClientWebSocketResponse:
        if self.socket is None or self.socket.closed:
            context = self._context()
            scheme = "ws" if context is None else "wss"
            self.socket = await self.session.ws_connect(
                f"{scheme}://{self.node.peer}/v1/peer", ssl=context or True
            )
            await self.socket.send_bytes(
                encode_hello(Hello(Identity(self.own, self.quorum.cluster_id, 1), wants=self.to))
            )
            assert isinstance(decode_hello(await self.socket.receive_bytes()), Hello)
        return self.socket

    def _context(self) -> ssl.SSLContext | None:
        """With the certificate of the replica that it plays; None: the node's port is plain."""
        if self.quorum.security is None:
            return None
        files = self.quorum.security.issue_node(self.own.node_id, ["localhost"])
        context = ssl.create_default_context(cafile=files.ca)
        context.load_cert_chain(files.certificate, files.key)
        return context

    async def leave(self) -> None:
        """Go; the next connection may be that of another replica."""
        if self.socket is not None:
            await self.socket.close()

    def frame(self, request: Request, *, compact: bool = True) -> tuple[int, bytes]:
        number = next(self.numbers)
        frame = CODEC.encode_request(
            request,
            source=self.own,
            target=self.to,
            cluster_id=self.quorum.cluster_id,
            correlation_id=number,
            compact=compact,
        )
        return number, frame

    async def ask(self, request: Request) -> Frame:
        """Send a good request and wait for its answer; nothing else may have come before."""
        number, frame = self.frame(request)
        socket = await self.open()
        await socket.send_bytes(frame)
        found = CODEC.decode(await socket.receive_bytes(timeout=PATIENCE_S))
        assert found.envelope.correlation_id == number, "an answer to what must have none"
        return found

    async def say(self, wrong: Wrong, good: Request, later: Request) -> str:
        """Send what a row says; `later` is a good request, which tells silence from delay."""
        number, frame = self.frame(good, compact=wrong.request == "CompactFetch")
        draft = Draft.of(wrong.request, frame)
        wrong.spoil(draft)
        socket = await self.open()
        await socket.send_bytes(draft.frame())
        if wrong.answer == SILENCE:
            assert error_of(await self.ask(later)) == "NONE"
            return SILENCE
        message = await socket.receive(timeout=PATIENCE_S)
        if message.type is not WSMsgType.BINARY:
            await socket.close()
            return CUT_OFF
        found = CODEC.decode(message.data)
        assert found.envelope.correlation_id == number
        assert found.envelope.source == self.to
        return error_of(found)


def error_of(frame: Frame) -> str:
    return frame.error.name if isinstance(frame, ErrorFrame) else frame.message.error.name


@asynccontextmanager
async def node_of(
    quorum: LocalQuorum, other: ReplicaKey | None, own: ReplicaKey
) -> AsyncIterator[Peer]:
    """A node formed alone or with `other`, and a connection to it as `own`."""
    node = quorum.nodes[0]
    node.environment["RAFTNODE_BOOTSTRAP_SERVERS"] = ""
    node.start()
    [info] = await quorum.wait_running([node])
    voters = [VoterSpec(node_id=info.node_id, directory_id=info.directory_id)]
    if other is not None:
        uuid_text = format_directory_id(other.directory_id)
        voters.append(VoterSpec(node_id=other.node_id, directory_id=uuid_text))
    form = FormRequest(cluster_id=quorum.cluster_id, voters=tuple(voters))
    await quorum.client.form(node.api, form)
    async with ClientSession() as session:
        yield Peer(session, quorum, node, own, voters[0].key)


async def state_of(quorum: LocalQuorum, node: LocalNode) -> dict[str, object]:
    """What no bad request may change: in memory and on disk."""
    said = (await quorum.info(node)).model_dump(mode="json")
    kept = {name: said[name] for name in said if name.endswith(("offset", "watermark", "epoch"))}
    kept |= {name: said[name] for name in ("role", "leader", "voters", "cluster_id")}
    [vote] = node.directory.rglob("quorum-state")
    return kept | {"quorum-state": vote.read_bytes()}


def rows(where: Callable[[Wrong], bool]) -> list[Wrong]:
    found = [wrong for wrong in wrong_requests() if where(wrong)]
    random.Random(1).shuffle(found)  # no row may lean on the one before
    return found


@pytest.mark.quorum_settings(RAFTNODE_FETCH_TIMEOUT_MS="60000")
async def test_voters_requests_with_one_thing_wrong(quorum: LocalQuorum):
    """Letting any of these pass in `wire`, `transport` or `core` makes this fail."""
    fake = ReplicaKey(NodeId(7), uuid.UUID(int=7))
    async with node_of(quorum, fake, fake) as peer:
        begin = BeginQuorumEpochRequest(EPOCH, peer.own, peer.to, None)
        good: dict[str, Request] = {
            "Vote": VoteRequest(EPOCH, peer.own, peer.to, LogPosition(EPOCH, Offset(9)), True),
            "BeginQuorumEpoch": begin,
            "EndQuorumEpoch": EndQuorumEpochRequest(EPOCH, peer.own, peer.to, (peer.to,)),
        }
        assert error_of(await peer.ask(begin)) == "NONE"
        assert error_of(await peer.ask(good["Vote"])) == "NONE"
        misses: list[str] = []
        for wrong in rows(lambda wrong: wrong.request not in TO_LEADER):
            assert error_of(await peer.ask(begin)) == "NONE"
            before = await state_of(quorum, peer.node)
            assert (before["role"], before["epoch"]) == ("follower", EPOCH)
            said = await peer.say(wrong, good[wrong.request], begin)
            after = await state_of(quorum, peer.node)
            if said != wrong.answer:
                misses.append(f"{wrong}: {said}, not {wrong.answer}")
            if (after != before) != (wrong.answer in CHANGES_STATE):
                misses.append(f"{wrong}: {before} became {after}")
        assert not misses, "\n".join(misses)
        # Lest the table be right because the node obeys no request.
        assert error_of(await peer.ask(good["EndQuorumEpoch"])) == "NONE"
        assert (await state_of(quorum, peer.node))["epoch"] != EPOCH


@pytest.mark.quorum_settings(
    RAFTNODE_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS="1000",
    RAFTNODE_LOG_RETENTION_BYTES="1000000",  # else the leader offers no snapshot while it has all
)
async def test_fetchers_requests_with_one_thing_wrong(quorum: LocalQuorum):
    """Letting any of these pass in `wire`, `transport` or `core` makes this fail."""
    own = ReplicaKey(NodeId(8), uuid.UUID(int=8))
    async with node_of(quorum, None, own) as peer:
        for number in range(10):
            await quorum.client.put(f"key-{number}", b"x" * 300)
        info = await quorum.info(peer.node)
        epoch, end = Epoch(info.epoch), Offset(info.log_end_offset)
        sequence, spent = itertools.count(1), itertools.count(100)

        def fetch(offset: Offset) -> FetchRequest:
            return FetchRequest(
                epoch=epoch,
                replica=peer.own,
                fetch_offset=offset,
                last_fetched_epoch=epoch if offset else Epoch(-1),
                acknowledged_offset=Offset(0),
                high_watermark=Offset(0),
                round_token=0,
                incarnation=1,
                max_bytes=1 << 20,
                max_wait_ms=0,
                sequence=next(sequence),
                endpoint=Endpoint("nowhere", 9),
                raft_version_max=2,
                promise_ms=9,
                wants_high_watermark=True,
            )

        async def offered() -> LogPosition | None:
            answer = await peer.ask(fetch(Offset(0)))
            return None if isinstance(answer, ErrorFrame) else answer.message.snapshot

        snapshot = await eventually(offered, what="a snapshot")

        def good(request: str) -> Request:
            if request in {"Fetch", "CompactFetch"}:
                return fetch(end)
            return FetchSnapshotRequest(
                epoch, peer.own, snapshot, 0, 1 << 16, endpoint=Endpoint("nowhere", 9)
            )

        assert error_of(await peer.ask(good("FetchSnapshot"))) == "NONE"
        before = await state_of(quorum, peer.node)
        assert before["role"] == "leader"
        misses: list[str] = []
        for wrong in rows(lambda wrong: wrong.request in TO_LEADER):
            if wrong.spends_sender:
                peer.own, kept = ReplicaKey(NodeId(9), uuid.UUID(int=next(spent))), peer.own
                await peer.leave()
                assert await peer.say(wrong, good(wrong.request), fetch(end)) == wrong.answer
                peer.own = kept
                await peer.leave()
                assert await state_of(quorum, peer.node) == before, f"{wrong}"
                continue
            said = await peer.say(wrong, good(wrong.request), fetch(end))
            if said != wrong.answer:
                misses.append(f"{wrong}: {said}, not {wrong.answer}")
            assert error_of(await peer.ask(fetch(end))) == "NONE", f"after {wrong}"
            assert await state_of(quorum, peer.node) == before, f"{wrong}"
        assert not misses, "\n".join(misses)
        await quorum.client.put("still", b"there")


def test_every_answer_is_a_code_or_says_what_happens_instead():
    names = {code.name for code in ErrorCode} - {"UNKNOWN_SERVER_ERROR"}
    assert {wrong.answer for wrong in wrong_requests()} <= names | {CUT_OFF, SILENCE, TAKEN}
