"""Clients that flood the leader's port: it stays the leader, and other clients are served.

The flood is a process of its own. It comes from a few addresses; the writer and the operator's
call come from others, and in one test from the flood's own. Most floods find a plain quorum; in one
test all clients have TLS and tokens, and the flood is a subject of its own. `floodlib.bounds` says
how long their calls may take, and `make floods` publishes how long they took.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from floodlib.bounds import breaches
from floodlib.figures import Figures, Waits
from proofkit.floods import ATTACKS, LARGE, LARGE_KEY, flood_of
from proofkit.localquorum import API_PORT, PEER_PORT, LocalNode, LocalQuorum
from proofkit.loopback import LoopbackNetwork
from proofkit.quorumsecurity import QuorumSecurity
from raftnode.client import Credentials
from raftnode.client.credential_files import PLAIN, CredentialFiles, LoadedCredentials
from raftnode.client.credentials import NO_CREDENTIALS
from raftnode.core.types import Endpoint
from raftnode.limits.model import Limit

pytestmark = [pytest.mark.timeout(300)]

AT_ONCE = 2000
SECURED_AT_ONCE = 1000
"""Of a flood whose clients end their handshakes: more than the limit of requests in flight of one
subject, and a quarter of them, from one address, are fewer. Of 2,000 on two cores, shared with the
flood, a quarter had no handshake before the deadline for the head."""
CLUSTER_ID = "FloodedFloodedFloodedF"
FLOODERS = 4
"""Addresses of the flood: all of its connections from one would be refused too easily."""
BEFORE_S = 4.0
WITH_FLOOD_S = 12.0
"""Longer than an election takes to begin, and than the deadlines below."""
PATIENCE_S = 60.0
"""How much longer a limit may take to refuse something of the flood."""
WRITES_MIN = 15
MEMORY_MAX_BYTES = 512 << 20
"""Of the leader, more than before the flood."""

SETTINGS = {
    "RAFTNODE_API_HEAD_TIMEOUT_MS": "4000",
    "RAFTNODE_API_BODY_TIMEOUT_MS": "4000",
}
"""Deadlines that end within the flood. The times of the protocol are the defaults."""


@dataclass
class Bystander:
    """A client and the operator, while others flood."""

    waits_s: list[float] = field(default_factory=list[float])
    described_s: list[float] = field(default_factory=list[float])
    probed: int = 0
    failures: list[str] = field(default_factory=list[str])
    peak_bytes: int = 0


def memory_bytes(node: LocalNode) -> int:
    assert node.process is not None
    with open(f"/proc/{node.process.pid}/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * 4096


@asynccontextmanager
async def bystander(
    leader: LocalNode, local: str, access: LoadedCredentials
) -> AsyncGenerator[Bystander]:
    """Write one value after the other, and describe the quorum as the operator does."""
    state, stopped = Bystander(), asyncio.Event()
    connector = aiohttp.TCPConnector(local_addr=(local, 0), ssl=access.ssl)

    def client(connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            access.url(leader.api, "/"),
            connector=connector,
            headers=access.headers,
            timeout=aiohttp.ClientTimeout(total=10),
        )

    async def write(session: aiohttp.ClientSession) -> None:
        number = 0
        while not stopped.is_set():
            number += 1
            began = time.monotonic()
            try:
                async with session.put(f"/v1/kv/other-{number}", data=b"x") as response:
                    if response.status != 200:
                        state.failures.append(f"put: {response.status} {await response.text()}")
            except (aiohttp.ClientError, TimeoutError) as error:
                state.failures.append(f"put: {error!r}")
            state.waits_s.append(time.monotonic() - began)
            await asyncio.sleep(0.05)

    async def operate() -> None:
        while not stopped.is_set():
            # As a probe and the operator do: a new connection for each look.
            once = aiohttp.TCPConnector(local_addr=(local, 0), force_close=True, ssl=access.ssl)
            async with client(once) as session:
                try:
                    began = time.monotonic()
                    async with session.get("/v1/quorum?confirmed=true") as response:
                        if response.status != 200:
                            state.failures.append(f"describe: {response.status}")
                    state.described_s.append(time.monotonic() - began)
                    async with session.get("/healthz/ready") as response:
                        state.probed += response.status == 200
                except (aiohttp.ClientError, TimeoutError) as error:
                    state.failures.append(f"describe: {error!r}")
            state.peak_bytes = max(state.peak_bytes, memory_bytes(leader))
            await asyncio.sleep(0.2)

    async with (
        client(connector) as session,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(write(session))
        group.create_task(operate())
        try:
            yield state
        finally:
            stopped.set()


async def refusals(leader: LocalNode, access: LoadedCredentials) -> dict[str, float]:
    async with (
        aiohttp.ClientSession(headers=access.headers) as session,
        session.get(access.url(leader.api, "/metrics"), ssl=access.ssl) as got,
    ):
        text = await got.text()
    return {
        limit: float(line.split()[1])
        for limit in Limit
        for line in text.splitlines()
        if line.startswith(
            f'raftnode_client_refusals_total{{limit="{limit.value}",listener="api"}}'
        )
    }


EXPECTED: dict[str, set[Limit]] = {
    "idle": {Limit.HEAD_TIME},
    "trickle_head": {Limit.HEAD_TIME},
    "trickle_body": {Limit.BODY_TIME},
    "requests": set(),
    "read_nothing": {Limit.UNREAD},
    "idle_sessions": set(),
    "deaf_sessions": {Limit.UNREAD},
    "greedy_sessions": {Limit.BODIES},
    "handshakes": set(),
}
"""What limits are certain to refuse something of each flood."""

SECURED = {
    "idle": EXPECTED["idle"],
    "trickle_body": EXPECTED["trickle_body"],
    "requests": {Limit.HOLDER_REQUESTS},
}
"""The same where all connections of the flood are one subject's."""
ANSWERED: dict[str, set[str]] = {"idle": set(), "trickle_body": {"408"}, "requests": {"200", "429"}}
"""How the node answers some of these."""

LONG = (pytest.mark.extended, pytest.mark.nightly)
TIERS = {"trickle_body": (), "idle": (pytest.mark.extended,)}
"""Part of `make test` and of `make extended`; the others of `make nightly`."""


def test_each_flood_has_its_expectation() -> None:
    assert EXPECTED.keys() == ATTACKS.keys()


@asynccontextmanager
async def secured_quorum(
    root: Path, network: LoopbackNetwork, security: QuorumSecurity, config: pytest.Config
) -> AsyncGenerator[LocalQuorum]:
    cache = {"HYPOTHESIS_STORAGE_DIRECTORY": str(config.rootpath / ".hypothesis")}
    settings = SETTINGS | cache
    async with LocalQuorum(
        root, 3, network, settings, cluster_id=CLUSTER_ID, security=security
    ) as quorum:
        yield quorum


async def flooded(
    quorum: LocalQuorum,
    network: LoopbackNetwork,
    kind: str,
    *,
    against: str,
    limits: Iterable[Limit] = (),
    same_address: bool = False,
    connections: int = AT_ONCE,
    access: LoadedCredentials = PLAIN,
    credentials: Credentials = NO_CREDENTIALS,
    port: int = API_PORT,
) -> Counter[str]:
    """Flood the leader with `credentials`, while others call it with `access`."""
    await quorum.form(3)
    leader = await quorum.leader()
    await quorum.put(LARGE_KEY, bytes(LARGE))
    epoch = (await quorum.describe()).epoch
    flooders = [network.host(200 + at) for at in range(FLOODERS)]
    local = flooders[0] if same_address else network.host(100)
    async with bystander(leader, local, access) as quiet:
        await asyncio.sleep(BEFORE_S)
        before = Waits.of(quiet.waits_s), Waits.of(quiet.described_s)
        before_bytes = memory_bytes(leader)
        quiet.waits_s.clear()
        quiet.described_s.clear()
        quiet.probed = 0
        to = Endpoint(leader.host, port)
        async with flood_of(kind, connections, to, flooders, credentials) as counts:
            await asyncio.sleep(WITH_FLOOD_S)
            refused = await refusals(leader, access)
            # On a busy machine the flood itself may need longer to reach a limit.
            deadline_s = time.monotonic() + PATIENCE_S
            while not all(refused[limit] for limit in limits):
                assert time.monotonic() < deadline_s, (limits, refused)
                await asyncio.sleep(1)
                refused = await refusals(leader, access)
        during = Waits.of(quiet.waits_s), Waits.of(quiet.described_s)
    grown = quiet.peak_bytes - before_bytes
    print(dict(counts), {limit: count for limit, count in refused.items() if count})  # noqa: T201
    (writes_before, describes_before), (writes, describes) = before, during
    figures = Figures(
        kind=kind,
        against=against,
        connections=connections,
        writes_before=writes_before,
        writes=writes,
        describes_before=describes_before,
        describes=describes,
        memory_bytes=grown,
    )
    figures.report()
    assert not quiet.failures, quiet.failures[:3]
    after = await quorum.describe()
    assert (after.leader.node_id, after.epoch) == (leader.node_id, epoch)
    assert writes.count >= WRITES_MIN
    assert describes.count >= 10
    assert list(breaches(figures)) == []
    assert quiet.probed >= 10
    assert grown < MEMORY_MAX_BYTES
    return counts


@pytest.mark.quorum_settings(**SETTINGS)
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=TIERS.get(kind, LONG)) for kind in EXPECTED if kind != "handshakes"],
)
async def test_a_flood_takes_nothing_from_the_quorum_and_other_clients(
    quorum: LocalQuorum, network: LoopbackNetwork, kind: str
) -> None:
    await flooded(quorum, network, kind, against="other addresses", limits=EXPECTED[kind])


@pytest.mark.extended
@pytest.mark.quorum_settings(**SETTINGS)
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("idle", marks=pytest.mark.nightly),
        pytest.param("trickle_body", marks=pytest.mark.nightly),
        "requests",
    ],
)
async def test_a_flood_from_the_operators_own_address_leaves_it_its_calls(
    quorum: LocalQuorum, network: LoopbackNetwork, kind: str
) -> None:
    await flooded(quorum, network, kind, against="the same address", same_address=True)


@pytest.mark.parametrize(
    "port",
    [
        pytest.param(API_PORT, id="api", marks=pytest.mark.extended),
        pytest.param(PEER_PORT, id="peer"),
    ],
)
async def test_a_flood_of_handshakes_does_not_take_the_leadership(
    port: int, tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
) -> None:
    security = QuorumSecurity(tmp_path / "security", CLUSTER_ID, tokens=False)
    async with secured_quorum(tmp_path, network, security, request.config) as quorum:
        access = CredentialFiles(security.credentials()).current()
        listener = "api" if port == API_PORT else "peer"
        against = f"listener `{listener}`"
        await flooded(quorum, network, "handshakes", against=against, access=access, port=port)


@pytest.mark.extended
@pytest.mark.nightly
@pytest.mark.parametrize("kind", SECURED)
async def test_a_subject_that_floods_with_tls_takes_nothing_from_another_subject(
    kind: str, tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
) -> None:
    security = QuorumSecurity(tmp_path / "security", CLUSTER_ID)
    security.grant("flood", "write")
    async with secured_quorum(tmp_path, network, security, request.config) as quorum:
        counts = await flooded(
            quorum,
            network,
            kind,
            against="another subject, with TLS",
            limits=SECURED[kind],
            connections=SECURED_AT_ONCE,
            access=CredentialFiles(security.credentials()).current(),
            credentials=security.credentials("flood"),
        )
    # Whether the flood came through: a certificate or a token that is refused would make it none.
    assert counts["connected"] >= SECURED_AT_ONCE, counts
    assert ANSWERED[kind] <= counts.keys(), counts
    assert "401" not in counts, counts
