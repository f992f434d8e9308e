"""The settings of all nodes of a quorum, from the spec and the operator's defaults.

Strongest first: `spec.config`, its older name `spec.nodeSettings`, the operator's defaults for
quorums that were created with them, the node's own. They depend only on the spec and on that mark,
so that every operator of this version computes the same settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from pydantic.alias_generators import to_camel

from kraftquorum_operator.model.access_facts import AccessFiles
from kraftquorum_operator.model.config import (
    ALLOWED,
    default_of,
    find_name_faults,
    find_value_faults,
)
from kraftquorum_operator.model.quantity import size_bytes
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.model.tls import TlsLevel
from raftnode.settings import ENV_PREFIX

ALWAYS = (
    "fetch_timeout_ms",
    "fetch_max_wait_ms",
    "election_timeout_ms",
    "election_backoff_max_ms",
    "request_timeout_ms",
)
"""Part of the template even if they are the node's defaults, as in earlier versions: without them,
an upgrade would restart every pod once."""

RETENTION_MAX = 1 << 40


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """The settings of a quorum's nodes.

    Attributes:
        defaults: which of the operator's defaults hold for the quorum; None: none of them.
        environment: variables and values, in the order of the pod's template.
        faults: why a node would refuse them, a sentence each; then `environment` is empty.
        tls: what the listeners accept.
        tls_faults: why the certificates cannot be used, a sentence each.
        access: the files of access control; None: the nodes have none.
        access_missing: whether they are wanted, and not there yet.
        image_named: whether the resource names the image of the nodes.
    """

    defaults: str | None
    environment: tuple[tuple[str, str], ...]
    faults: tuple[str, ...] = ()
    tls: TlsLevel = "disabled"
    tls_faults: tuple[str, ...] = ()
    access: AccessFiles | None = None
    access_missing: bool = False
    image_named: bool = False

    @property
    def usable(self) -> bool:
        """Whether pods may get these settings."""
        return not (self.faults or self.tls_faults or self.access_missing)


def managed_defaults(claim_bytes: int) -> dict[str, int]:
    """Settings with which a log cannot fill a claim of that size.

    The log has at most `log_retention_bytes`, a segment, and the records between two snapshots.
    With all three in proportion, it takes about a quarter of the claim.
    """
    segment, between = default_of("segment_bytes"), default_of("max_record_bytes_between_snapshots")
    assert isinstance(segment, int)  # noqa: S101 - as the node's model has them
    assert isinstance(between, int)  # noqa: S101
    return {
        "log_retention_bytes": min(claim_bytes // 8, RETENTION_MAX),
        "segment_bytes": min(claim_bytes // 16, segment),
        "max_record_bytes_between_snapshots": min(claim_bytes // 32, between),
    }


def node_config(spec: QuorumSpec, defaults: str | None, volume: str | None = None) -> NodeConfig:
    """Combine the settings, and check them as a whole.

    Args:
        spec: what is wanted, with the size that the claims were first made with.
        defaults: which of the operator's defaults hold; see `model/defaults.py`.
        volume: the size of the smallest volume; None: that of the spec.
    """
    older = spec.node_settings.model_dump(exclude_none=True)
    claim_bytes = size_bytes(spec.storage.size)
    values: dict[str, object] = dict(managed_defaults(claim_bytes)) if defaults else {}
    values |= older
    values |= {name: value for name, value in spec.config.items() if name in ALLOWED}
    faults = [*find_name_faults(spec.config), *_conflicting_names(older, spec.config)]
    faults += find_value_faults(values) if "fetch_max_wait_ms" in values else _derive(values)
    if not faults:
        faults += _reserve_faults(values, volume or spec.storage.size)
    if faults:
        return NodeConfig(defaults, (), tuple(faults))
    written = [*ALWAYS, *(name for name in ALLOWED if name not in ALWAYS)]
    given = ((name, _text(name, values.get(name, default_of(name)))) for name in written)
    return NodeConfig(
        defaults,
        tuple(
            (f"{ENV_PREFIX}{name.upper()}", text)
            for name, text in given
            if name in ALWAYS or text != _text(name, default_of(name))
        ),
    )


def _derive(values: dict[str, object]) -> list[str]:
    """Add the settings that follow from others; return the faults of these others."""
    times = ("fetch_timeout_ms", "election_timeout_ms")
    alone = {**values, "fetch_max_wait_ms": 0}
    faults = list(find_value_faults(alone))
    if not faults:
        fetch, election = (int(_text(name, values.get(name, default_of(name)))) for name in times)
        values["fetch_max_wait_ms"] = fetch_max_wait_ms(fetch, election)
    return faults


def _conflicting_names(older: Mapping[str, object], config: Mapping[str, object]) -> Iterator[str]:
    """A setting with two values; the API server accepts it only in a resource from an older CRD."""
    for name, value in older.items():
        if name in config and value not in (default_of(name), config[name]):
            camel = to_camel(name)
            yield (
                f"nodeSettings.{camel} is {value!r} and config.{name} is {config[name]!r}; set "
                f"config.{name} only, nodeSettings is its older name"
            )


def _reserve_faults(values: Mapping[str, object], size: str) -> Iterator[str]:
    """A reserve that a node accepts, but with which a leader would refuse every write."""
    name = "disk_reserve_bytes"
    reserve = int(_text(name, values.get(name, default_of(name))))
    if 2 * reserve >= size_bytes(size):
        yield (
            f"config.{name} is {reserve}, too much for a volume of {size}: a leader accepts "
            "writes only while twice as much is free; set less than half of the size"
        )


def fetch_max_wait_ms(fetch_timeout_ms: int, election_timeout_ms: int) -> int:
    """How long an idle leader may hold a Fetch: derived, so that every allowed pair of times works.

    A node refuses to start unless it is at most half the fetch timeout and less than the
    election timeout; 500 ms with the defaults.
    """
    return min(500, fetch_timeout_ms // 4, election_timeout_ms // 2)


def _text(name: str, value: object) -> str:
    """A value that a node takes, as its variable has it."""
    default = default_of(name)
    if isinstance(default, int) and not isinstance(default, bool):
        return str(int(str(value)) if isinstance(value, str) else int(cast("float", value)))
    return str(value).lower()
