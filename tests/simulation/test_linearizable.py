"""What clients of a simulated world saw of its keys is linearizable, and stale reads are not."""

from collections.abc import Callable
from typing import Any

import pytest

from proofkit.linearizability import check
from proofkit.mutation import taken_out
from proofkit.simulator.invariants import Checker, InvariantError
from proofkit.simulator.machine import Machine
from proofkit.simulator.run import build, run_seed
from raftnode.core.replication import leadership

SEEDS_MAX = 20


def nothing(*_: object) -> None:
    """What the checker does of confirmed answers here: histories must tell by themselves."""


@pytest.mark.rule("S11")
@pytest.mark.parametrize(
    ("function", "old", "new"),
    [
        (leadership.answer_confirmations, "confirmation.token <= echoed and settled", "settled"),
        (
            Machine.apply,
            "self.values[key]",
            (
                "self.values.update((k[1:], v) for k, v in [*self.values.items()] if k[0] == 33); "
                "self.values[b'!' + key]"
            ),
        ),
    ],
    ids=["without-a-round", "of-a-state-that-lags-by-a-record"],
)
def test_reads_that_are_answered_too_early_are_found(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], old: str, new: str
):
    monkeypatch.setattr(Checker, "confirmed", nothing)
    with taken_out(function, old, new):
        for seed in range(62, 62 + SEEDS_MAX):
            found = broken_promise(seed)
            if found is not None:
                print(f"found by seed {seed}: {found}")  # noqa: T201
                assert found.name == "Linearizable"
                return
    pytest.fail(f"{SEEDS_MAX} seeds did not miss the rule")


def broken_promise(seed: int) -> InvariantError | None:
    try:
        run_seed(seed)
    except InvariantError as found:
        return found
    return None


def test_there_is_something_to_judge():
    world = build(3)
    world.start_all()
    world.every(20, 100, 10_000, world.tell_blank)
    world.every(5, 50, 10_000, world.writer.write)
    world.every(10, 50, 10_000, world.reader.read)
    world.run_until(12_000)
    found = world.keyvalue.history.all()
    reads = [one for one in found if not one.is_write]
    writes = [one for one in found if one.is_write]
    assert len(reads) > 50
    assert len(writes) > 50
    assert {one.key for one in reads} == {one.key for one in writes}
    assert check(found) is None
