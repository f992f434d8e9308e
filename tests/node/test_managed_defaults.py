"""Nodes with the settings that the operator gives to a new quorum: their logs never fill a claim."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.model.objects import ObjectRef, Owner
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.resources.build import build
from kraftquorum_operator.resources.node_config import node_config
from proofkit.localquorum import LocalQuorum, eventually
from raftnode.client.errors import NotDoneError, OutcomeUnknownError
from raftnode.settings import NodeSettings

pytestmark = [pytest.mark.timeout(1200), pytest.mark.extended]

CLAIM = "256Mi"
CLAIM_BYTES = 256 << 20
VALUE_BYTES = 512 << 10
KEYS = 8
"""So the state is 4 MiB: what grows is the log."""

OF_THE_MACHINE = ("_LISTEN", "_ADVERTISED", "_LOG_DIR", "_NODE_ID", "_SERVER", "_SERVERS")
"""What a local process must have of its own."""


def given_to_a_new_quorum() -> dict[str, str]:
    """The settings in the pods' template of a quorum with the smallest claims."""
    spec = QuorumSpec.model_validate({"storage": {"size": CLAIM}})
    owner, config = Owner("space", "demo", "uid-1"), node_config(spec, names.DEFAULTS)
    body = build(owner, spec, 3, config)[ObjectRef("StatefulSet", "demo")]
    (container,) = body["spec"]["template"]["spec"]["containers"]
    return {
        one["name"]: one["value"]
        for one in container["env"]
        if one["name"].startswith("RAFTNODE_")
        and "value" in one
        and not one["name"].endswith(OF_THE_MACHINE)
    }


def used_bytes(directory: Path) -> int:
    """Blocks on the disk of all files below a directory."""
    found = 0
    for path in directory.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            found += path.stat().st_blocks * 512
    return found


def snapshot_end(directory: Path) -> int:
    """Where the newest snapshot ends, off its file's name; 0 without any."""
    found = [path.name.partition("-")[0] for path in directory.rglob("*.checkpoint")]
    return max((int(end) for end in found if end.isdecimal()), default=0)


async def test_constant_writes_never_fill_the_smallest_claim_with_the_managed_defaults(
    tmp_path, network
) -> None:
    """More than the claim is written; all along each node has room to go on taking writes.

    The client waits for the slowest node's snapshots, so that no speed is compared with another:
    a disk on which they fall behind is what the reserve is for.
    """
    settings = given_to_a_new_quorum()
    between = int(settings.get("RAFTNODE_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS", 20 << 20))
    reserve = NodeSettings.model_fields["disk_reserve_bytes"].default
    async with LocalQuorum(tmp_path, 3, network, settings) as quorum:
        await quorum.form(3)
        directories = [node.directory for node in quorum.nodes[:3]]
        number = end = 0
        while number * VALUE_BYTES < CLAIM_BYTES * 5 // 4:
            number += 1
            with contextlib.suppress(OutcomeUnknownError, NotDoneError):
                value = b"%8d" % number * (VALUE_BYTES // 8)
                end = (await quorum.client.put(f"key-{number % KEYS}", value)).last_offset

            async def followed(end: int = end) -> bool | None:
                behind = end - min(map(snapshot_end, directories))
                return True if behind * VALUE_BYTES < 2 * between else None

            await eventually(followed, what="snapshots to follow the writes")
            used = max(map(used_bytes, directories))
            assert used < CLAIM_BYTES - 2 * reserve, (
                f"{used >> 20} MiB are used of a claim of {CLAIM} after "
                f"{number * VALUE_BYTES >> 20} MiB of writes: a leader there would refuse more"
            )
        starts = [(await quorum.info(node)).log_start_offset for node in quorum.nodes[:3]]
        assert min(starts) > 0, "every replica has trimmed its log"
