"""etcd's own load generator: its command lines, and what it prints.

It takes a number of requests and no time, so a short run comes first and says how many fit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kraftquorum_bench.contenders import UnsupportedLoadError
from kraftquorum_bench.loads import Load

CONNECTIONS_MAX = 100
"""gRPC connections that the clients share, as etcd's own documentation of its benchmark has it."""
TXN_MAX = 100
"""Puts of a transaction: etcd refuses more than 128 operations by default."""
_KEY_BYTES = 8
_PER_S = re.compile(r"Requests/sec:\s*(\S+)")
_QUANTILE = re.compile(r"(\d+(?:\.\d+)?)% in (\S+) secs")
_ERROR = re.compile(r"^\s+\[(\d+)\]\s+(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Printed:
    """What the tool printed about a run."""

    per_s: float
    """Requests a second; a transaction is one request."""
    p50_ms: float
    p99_ms: float
    errors: int


def arguments(load: Load, endpoints: Sequence[str], total: int) -> list[str]:
    """The arguments for a load; `total` counts requests.

    Raises:
        UnsupportedLoadError: the tool cannot make this load.
    """
    if load.transport != "sessions":
        raise UnsupportedLoadError(f"etcd's tool speaks gRPC alone, not {load.transport}")
    common = [
        f"--endpoints={','.join(endpoints)}",
        f"--clients={load.clients}",
        f"--conns={min(load.clients, CONNECTIONS_MAX)}",
        "--precise",
    ]
    size = [f"--key-size={_KEY_BYTES}", f"--val-size={load.value_bytes}"]
    keys = f"--key-space-size={load.keys}"
    counted = f"--total={total}"
    match load.operation:
        case "put":
            # A put names a key; only the leader can append it.
            return ["put", "--target-leader", "--sequential-keys", keys, counted, *size, *common]
        case "append":
            batch = f"--txn-ops={min(load.batch, TXN_MAX)}"
            return ["txn-put", "--target-leader", batch, keys, counted, *size, *common]
        case "get" | "get_stale":
            consistency = "l" if load.operation == "get" else "s"
            asked = ["range", READ_KEY, f"--consistency={consistency}", counted, *common]
            return asked if consistency == "s" else [*asked, "--target-leader"]
        case "mixed":
            reads = ["--rw-ratio=1", "--limit=1", "--consistency=l"]
            return ["txn-mixed", "--target-leader", *reads, keys, counted, *size, *common]


READ_KEY = "read"
"""The key that the tool's reads ask for."""


def records_of_request(load: Load) -> int:
    """Records that one request of the tool carries."""
    return min(load.batch, TXN_MAX) if load.operation == "append" else 1


def requests_for(per_s: float, seconds: float, clients: int) -> int:
    """How many requests take about so long, at least one for each client."""
    return max(int(per_s * seconds), clients, 10)


def parse(printed: str) -> Printed:
    """Read what the tool prints at its end; a mixed load has two parts, which add up.

    Raises:
        ValueError: there is no result in it.
    """
    rates = [float(text) for text in _PER_S.findall(printed)]
    if not rates:
        raise ValueError(f"etcd's benchmark printed no result: {printed[-500:]!r}")
    parts = _QUANTILE.findall(printed)
    p50 = [float(seconds) for share, seconds in parts if float(share) == 50]
    p99 = [float(seconds) for share, seconds in parts if float(share) == 99]
    errors = sum(int(number) for number, _ in _ERROR.findall(_after_errors(printed)))
    return Printed(sum(rates), max(p50, default=0) * 1000, max(p99, default=0) * 1000, errors)


def _after_errors(printed: str) -> str:
    return printed.partition("Error distribution:")[2]
