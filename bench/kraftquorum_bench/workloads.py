"""What is measured: each workload, the quorums that it runs on, and the peer beside ours."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from kraftquorum_bench.loads import KEYS, KIB, Load, Operation, Transport

MIB = 1 << 20
FILL_BYTES = 64 * KIB
"""The values that a log or a store is filled with."""
LARGEST_VALUE = MIB - KIB
"""A value that fits into the node's largest record with its key, so called 1 MiB."""
BULK_RECORDS = 1000
BULK_CLIENTS = 8
CLIENTS = (1, 64, 512, 2048)


@dataclass(frozen=True, slots=True)
class Group:
    """Quorums that run side by side, on which workloads take turns.

    Attributes:
        name: of the group.
        peers: names of the contenders beside ours.
        members: of each quorum.
        room: nodes of ours that a workload may add.
        fill_mib: bytes written before the rounds, in MiB, in values of 64 KiB.
        distinct: whether each of these has a key of its own, so that the state is as large as the
            log; else they go round `KEYS` keys.
        fresh: whether each round has new quorums.
        secured: whether ours has TLS between all, and asks clients for a token.
    """

    name: str
    peers: tuple[str, ...] = ("etcd",)
    members: int = 3
    room: int = 0
    fill_mib: int = 0
    distinct: bool = False
    fresh: bool = False
    secured: bool = False

    @property
    def fill_values(self) -> int:
        """How many values are written beforehand."""
        return self.fill_mib * MIB // FILL_BYTES

    @property
    def fill_keys(self) -> int:
        """How many keys they have."""
        return self.fill_values if self.distinct else KEYS


@dataclass(frozen=True, slots=True)
class Workload:
    """A row of the report.

    Attributes:
        name: in report.json.
        title: for people.
        group: where it runs.
        peer: the contender that the ratio is to.
        figure: which figure of a sample counts.
        unit: of that figure.
        higher_is_better: of that figure.
        load: what clients do; None: an event.
        peer_load: what the peer's clients do, where its client differs; None: the same.
        event: a name of `events.EVENTS`.
        in_quick: whether QUICK=1 runs it.
        only_full: whether SIZE=full alone runs it.
    """

    name: str
    title: str
    group: Group
    peer: str = "etcd"
    figure: str = "per_s"
    unit: str = "op/s"
    higher_is_better: bool = True
    load: Load | None = None
    peer_load: Load | None = None
    event: str | None = None
    in_quick: bool = True
    only_full: bool = False


THREE = Group("three")
_WORDS: dict[Operation, str] = {"put": "Puts", "get": "Linearizable reads"}


SECURED = Group("secured", peers=("plain",), secured=True)


def _throughput(operation: Operation, transport: Transport, clients: int) -> Workload:
    by = "sessions" if transport == "sessions" else "HTTP"
    alone = clients == 1
    return Workload(
        name=f"{operation}_{clients}" + ("" if transport == "sessions" else "_http"),
        title=f"{_WORDS[operation]}, {clients:,} client{'' if alone else 's'}, {by}",
        group=THREE,
        figure="p50_ms" if alone else "per_s",
        unit="ms" if alone else "op/s",
        higher_is_better=not alone,
        load=Load(operation=operation, clients=clients, transport=transport),
        peer_load=Load(operation=operation, clients=clients),
    )


def _loads() -> list[Workload]:
    rows = [
        _throughput(operation, transport, clients)
        for operation in _WORDS
        for transport in ("sessions", "http")
        for clients in CLIENTS
    ]
    rows += [
        Workload(
            name="get_stale_64",
            title="Reads at any node, which may be stale, 64 clients",
            group=THREE,
            load=Load(operation="get_stale", clients=64),
        ),
        Workload(
            name="mixed_64",
            title="Puts and linearizable reads, half each, 64 clients",
            group=THREE,
            load=Load(operation="mixed", clients=64),
        ),
    ]
    for words, value_bytes in (
        ("100b", 100),
        ("10kib", 10 * KIB),
        ("100kib", 100 * KIB),
        ("1mib", LARGEST_VALUE),
    ):
        rows.append(
            Workload(
                name=f"put_64_{words}",
                title=f"Puts of {value_bytes:,} B, 64 clients",
                group=THREE,
                load=Load(operation="put", clients=64, value_bytes=value_bytes, keys=100),
                in_quick=words in ("100b", "1mib"),
            )
        )
    return rows


def _secured() -> list[Workload]:
    """Loads of a quorum with TLS and a token, beside those of a plain quorum of ours."""
    plain = (
        _throughput(operation, "sessions", clients) for operation in _WORDS for clients in (1, 64)
    )
    return [
        dataclasses.replace(
            row,
            name=f"{row.name}_tls",
            title=f"{row.title}, TLS and a token, beside neither",
            group=SECURED,
            peer="plain",
        )
        for row in plain
    ]


def _bulk() -> list[Workload]:
    kafka = Group("kafka", peers=("kafka_pinned", "kafka_best"))
    load = Load(operation="append", clients=BULK_CLIENTS, batch=BULK_RECORDS)
    transactions = Load(operation="append", clients=64, batch=100)
    return [
        Workload(
            name=f"bulk_{peer}",
            title=f"Bulk: records of 1 KiB in appends of {BULK_RECORDS:,}, beside {words}",
            group=group,
            peer=peer,
            unit="records/s",
            load=load,
            peer_load=peer_load,
        )
        for peer, words, group, peer_load in (
            ("etcd", "etcd's transactions of 100 puts", THREE, transactions),
            ("kafka_pinned", "Kafka at its default batch size", kafka, None),
            ("kafka_best", "Kafka at its best settings", kafka, None),
        )
    ]


def _sizes() -> list[Workload]:
    rows = [
        Workload(
            name=f"members_{members}",
            title=f"Puts, 64 clients, {members} member{'' if members == 1 else 's'}",
            group=Group(f"members_{members}", members=members),
            load=Load(operation="put", clients=64),
            in_quick=members == 5,
        )
        for members in (1, 3, 5, 7, 9)
    ]
    for words, mib in (("10mb", 10), ("100mb", 100), ("1gb", 1024), ("10gb", 10_240)):
        rows.append(
            Workload(
                name=f"log_{words}",
                title=f"Puts, 64 clients, after {mib:,} MiB of log",
                group=Group(f"log_{words}", fill_mib=mib),
                load=Load(operation="put", clients=64),
                in_quick=mib == 10,
                only_full=mib > 1024,
            )
        )
    return rows


def _events(state_mib: int) -> list[Workload]:
    held = Group("held", fill_mib=state_mib, distinct=True)
    wiped = Group("wiped", peers=("copy",), fill_mib=state_mib, distinct=True)
    rows = (
        ("failover", "Longest write stall after the leader is killed, 64 clients", Group("fault")),
        ("restart", f"Restart of a member with {state_mib:,} MiB, until it has caught up", held),
        ("wiped", f"A wiped disk with {state_mib:,} MiB, to full redundancy", wiped),
        ("scale", "From 3 to 5 voters, 64 clients writing", Group("grown", room=2, fresh=True)),
        ("memory", "Memory of a member at rest", Group("rest")),
    )
    return [
        Workload(
            name=name,
            title=title,
            group=group,
            peer=group.peers[0],
            figure="mib" if name == "memory" else "s",
            unit="MiB" if name == "memory" else "s",
            higher_is_better=False,
            event=name,
        )
        for name, title, group in rows
    ]


def all_workloads(state_mib: int = 1024) -> list[Workload]:
    """All rows, those of one group together; `state_mib` is what a disk holds in the events."""
    zookeeper = Workload(
        name="put_64_zookeeper",
        title="Puts, 64 clients, beside ZooKeeper",
        group=Group("zookeeper", peers=("zookeeper",)),
        peer="zookeeper",
        load=Load(operation="put", clients=64),
    )
    bulk, *bulk_kafka = _bulk()
    rows = [*_loads(), bulk, *bulk_kafka, zookeeper, *_secured()]
    return [*rows, *_events(state_mib), *_sizes()]


def grouped(workloads: list[Workload]) -> dict[Group, list[Workload]]:
    """Workloads by group, in the order in which the groups appear."""
    groups: dict[Group, list[Workload]] = {}
    for workload in workloads:
        groups.setdefault(workload.group, []).append(workload)
    return groups
