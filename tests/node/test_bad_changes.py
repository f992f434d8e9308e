"""Every wrong request to form or change a quorum, as bytes to the leader of a real one."""

import random
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from proofkit.badchanges import DONE, OPERATIONS, OTHERWISE, wrong_changes
from proofkit.localquorum import LocalQuorum, eventually
from raftnode.api.errors import ERRORS
from raftnode.api.model import Replica

pytestmark = [
    pytest.mark.extended,
    pytest.mark.timeout(300),
    pytest.mark.rule("P29", "P30", "P33", "S11", "S15", "S18"),
]


async def said(session: ClientSession, path: str, body: Any) -> tuple[int, dict[str, Any]]:
    async with session.post(path, json=body) as response:
        return response.status, await response.json()


async def state_of(quorum: LocalQuorum) -> dict[str, Any]:
    """What no bad request may change."""
    quorum_info = await quorum.describe()
    found = quorum_info.model_dump(mode="json")
    names = ("leader", "epoch", "log_end_offset", "committed_voters", "voter_record")
    more = ("assignment_record", "raft_version", "cluster_id")
    targets = sorted(str(one.key) for one in quorum_info.target_voters)
    return {name: found[name] for name in (*names, *more)} | {"target_voters": targets}


async def good_bodies(quorum: LocalQuorum, observer: Replica) -> dict[str, dict[str, Any]]:
    """Of each operation one that would be obeyed."""
    found = await quorum.describe()
    other = next(one for one in found.voters if one.key != found.leader.key)
    voters = [Replica.of(one.key).model_dump() for one in found.voters]
    new = observer.model_dump()
    assert found.assignment_record is not None
    record, assigned = found.voter_record.model_dump(), found.assignment_record.model_dump()
    quick: dict[str, Any] = {"timeout_ms": 2000}
    there = {"endpoint": "127.0.0.1:9"}
    voter = Replica.of(other.key).model_dump()
    return {
        "AddVoter": {"voter": new | there, "expected": record, "replaces": voter} | quick,
        "RemoveVoter": {"voter": voter, "expected": record} | quick,
        "Reassign": {"targets": [new | there, *voters], "expected": assigned} | quick,
        "CancelReassignment": {"expected": assigned} | quick,
        "Upgrade": {"raft_version": 2} | quick,
        "Resign": {"preferred": voter},
        "Form": {
            "cluster_id": found.cluster_id,
            "voters": [one | there for one in voters],
            "raft_version": 2,
        },
        "Join": {"cluster_id": found.cluster_id},
    }


async def misses_of(quorum: LocalQuorum, observer: Replica, *operations: str) -> list[str]:
    """Send every row of some operations to the leader; what was answered or done otherwise."""
    rows = [wrong for wrong in wrong_changes() if wrong.operation in operations]
    random.Random(1).shuffle(rows)  # no row may lean on the one before
    good, before = await good_bodies(quorum, observer), await state_of(quorum)
    misses: list[str] = []
    async with ClientSession(f"http://{(await quorum.leader()).api}") as session:
        for wrong in rows:
            path, _ = OPERATIONS[wrong.operation]
            status, answer = await said(session, path, wrong.spoil(good[wrong.operation]))
            error, message = answer.get("error"), answer.get("message", "")
            if (error, status) != (wrong.answer, ERRORS[wrong.answer].status):
                misses.append(f"{wrong}: {status} {error}, not {wrong.answer}: {message}")
            named = wrong.field.replace(".0.", "[0].")
            if error == "INVALID_REQUEST" and named not in message and wrong.field not in message:
                misses.append(f"{wrong}: {message!r} does not name it")
            if await state_of(quorum) != before:
                misses.append(f"{wrong}: it changed something")
    return misses


@pytest.mark.quorum_settings(RAFTNODE_FETCH_TIMEOUT_MS="8000")  # no replica is to be elected
async def test_changes_with_one_thing_wrong(quorum: LocalQuorum):
    """Letting any of these pass in `api`, `runtime` or `core` makes this fail."""
    await quorum.form(2)
    observer = quorum.nodes[2]
    observer.start()
    replica = await quorum.observe(observer)
    others = [name for name in OPERATIONS if name != "CancelReassignment"]
    assert await misses_of(quorum, replica, *others) == []

    # A target that cannot be reached is under way: now there is something to take back.
    good, patient = await good_bodies(quorum, replica), {"timeout_ms": 30_000}
    observer.kill()

    async def behind() -> bool | None:
        return not any(one.caught_up for one in (await quorum.describe()).observers) or None

    await eventually(behind, what="the observer to be missed")
    async with ClientSession(f"http://{(await quorum.leader()).api}") as session:
        path, _ = OPERATIONS["Reassign"]
        assert (await said(session, path, good["Reassign"] | patient))[0] == 200
        assert await misses_of(quorum, replica, "CancelReassignment") == []
        # Lest the table be right because the node obeys no request.
        good = await good_bodies(quorum, replica)
        for operation in ("CancelReassignment", "RemoveVoter"):
            path, _ = OPERATIONS[operation]
            status, answer = await said(session, path, good[operation] | patient)
            assert status == 200, answer


def test_every_answer_that_is_not_the_models_own_is_of_a_row():
    rows = {(wrong.operation, wrong.field, wrong.value) for wrong in wrong_changes()}
    assert {spot for spot, answer in OTHERWISE.items() if answer != DONE} <= rows
    assert {answer for answer in OTHERWISE.values() if answer != DONE} <= ERRORS.keys()


def test_the_page_on_proofs_says_how_many_rows_there_are():
    page = Path("docs/evidence/proof.md").read_text()
    assert f"(bad-changes.md), {len(list(wrong_changes()))} of them" in page
