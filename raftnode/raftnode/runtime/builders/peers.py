"""The other replicas: their admission and addresses, requests both ways, snapshots."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from raftnode.core.replica import Replica
from raftnode.core.types import Endpoint, VoterSet
from raftnode.errors import StorageStaleError
from raftnode.hosts import HostsFile
from raftnode.logformat.batch import decode_batches
from raftnode.runtime.builders.base import Base
from raftnode.runtime.builders.disk import Disk
from raftnode.runtime.builders.writes import Writes
from raftnode.runtime.peers.gatekeeper import Gatekeeper
from raftnode.runtime.peers.peer_messages import Peering, rank_of
from raftnode.runtime.service import Service
from raftnode.runtime.snapshots.transfer import SnapshotTransfer, TransferOutcomes
from raftnode.tls.handshakes import ListenerTls
from raftnode.transport import (
    AddressBook,
    HostsFileResolver,
    Identity,
    PeerContext,
    PeerPool,
    PeerServer,
    PeerTls,
)
from raftnode.transport.server import OnRefused
from raftnode.wire import Codec


@dataclass(frozen=True, slots=True)
class Peers:
    """The parts that know the other replicas.

    Attributes:
        gatekeeper: admits or refuses them.
        addresses: where they listen.
        peering: between the core's messages and the transport.
        transfer: snapshots between the wire, the disk and the state machine.
    """

    gatekeeper: Gatekeeper
    addresses: AddressBook
    peering: Peering
    transfer: SnapshotTransfer


@dataclass(slots=True)
class VoterAddresses:
    """Keeps the address book in step with the voters in force."""

    replica: Replica
    addresses: AddressBook
    known: VoterSet

    def follow(self) -> None:
        """Take over the voter set if it has changed since the last call."""
        voters = self.replica.log.voters
        if voters is not self.known:
            self.known = voters
            self.addresses.set_voters(voters)


def build_peers(base: Base, writes: Writes, disk: Disk) -> Peers:
    """Build all parts except the connections."""
    settings, driver, replica = base.settings, base.driver, base.core.replica
    addresses = AddressBook(settings.first_addresses)
    gatekeeper = Gatekeeper(
        replica,
        base.storage.directory.peer_marks,
        write=base.storage.directory.write_peer_marks,
        on_stale=lambda reason: base.process.fail(StorageStaleError(reason)),
        spawn=base.process.tasks,
    )
    peering = Peering(
        driver.post,
        writes.inquiries.next_id,
        addresses,
        timeout_ms=settings.request_timeout_ms,
        vote_timeout_ms=settings.election_timeout_ms,
        backlog=lambda: driver.backlog,
        on_epoch=gatekeeper.note_epoch,
        metrics=base.metrics.node,
    )
    transfer = SnapshotTransfer(
        base.storage.snapshots,
        base.storage.log,
        writes.applier,
        TransferOutcomes(
            post=driver.post,
            respond=peering.respond,
            on_error=base.process.fail,
            on_installed=disk.snapshotter.installed,
            on_piece=base.metrics.node.snapshot_piece,
            on_damaged=disk.snapshotter.damaged,
        ),
        room_for=disk.has_room,
    )
    return Peers(gatekeeper, addresses, peering, transfer)


def own_identity(base: Base, service: Service) -> Callable[[], Identity]:
    """This replica's identity for each hello, with the end of the log at the start.

    Every frame asks for it, so it is made again only once something in it has changed.
    """
    directory, replica = base.storage.directory, base.core.replica
    start_epoch, start_end = replica.epoch, base.storage.log.end_offset

    @lru_cache(maxsize=1)
    def identity(
        cluster_id: str | None, incarnation: int, line: tuple[str, ...], *endpoints: Endpoint | None
    ) -> Identity:
        peer, api = endpoints
        return Identity(
            directory.key, cluster_id, incarnation, peer, api, line, start_end, start_epoch
        )

    return lambda: identity(
        replica.cluster_id,
        directory.incarnation,
        directory.line,
        service.peer_endpoint,
        service.api_endpoint,
    )


@dataclass(frozen=True, slots=True)
class Connections:
    """The connections to the other replicas.

    Attributes:
        pool: those that this node dials.
        server: those that others dial.
    """

    pool: PeerPool
    server: PeerServer

    async def close(self) -> None:
        """End all, those that this node dials first."""
        await self.pool.close()
        await self.server.close()


def connect(
    base: Base,
    peers: Peers,
    identity: Callable[[], Identity],
    tls: ListenerTls | None = None,
    on_refused: OnRefused | None = None,
) -> Connections:
    """Give the peering its connections."""
    tasks = base.process.tasks
    context = PeerContext(
        Codec(decode_batches=decode_batches),
        identity,
        tasks,
        peers.gatekeeper,
        tls=None if tls is None else PeerTls(tls.files, tls.on_failed),
    )
    hosts_file = base.settings.hosts_file
    resolver = HostsFileResolver(HostsFile(hosts_file), spawn=tasks) if hosts_file else None
    peering = peers.peering
    pool = PeerPool(
        context,
        addresses=peers.addresses,
        on_response=peering.on_response,
        on_failure=peering.on_failure,
        on_hello=peering.on_hello,
        rng=random.Random(),  # noqa: S311
        resolver=resolver,
    )
    peering.pool = pool
    server = PeerServer(
        context,
        on_request=peering.on_request,
        on_hello=peering.on_called,
        on_refused=on_refused,
        rank=lambda key: rank_of(base.core.replica, key),
    )
    return Connections(pool, server)
