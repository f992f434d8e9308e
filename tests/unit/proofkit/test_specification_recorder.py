"""What a trace says of a process that was killed between a line and what the line says."""

import pytest

from proofkit.specification.recorder import Recorder
from proofkit.specification.sightings import (
    Appended,
    Entry,
    Flushed,
    Formed,
    Persisted,
    RoleChanged,
    Sighting,
    Started,
    Truncated,
)

KEY, OTHER = "0-first", "1-second"


def started(epoch: int = -1, voted: str | None = None, end: int = 0, last: int = -1) -> Started:
    return Started(epoch, None, voted, end, last, 0)


def steps(*sightings: tuple[str, Sighting]) -> list[tuple[object, ...]]:
    recorder = Recorder(kills=True)
    recorder.take(KEY, Formed([KEY, OTHER]))
    for key, sighting in sightings:
        recorder.take(key, sighting)
    return recorder.trace.steps


@pytest.mark.parametrize("stored", [True, False])
def test_a_vote_is_in_the_trace_only_if_the_next_start_finds_it(stored: bool):
    again = started(1, KEY) if stored else started()
    taken = steps((KEY, started()), (KEY, Persisted(1, None, KEY)), (KEY, again))
    assert (("StartElection", (1, 1), 1) in taken) is stored


def test_an_epoch_that_was_not_stored_takes_no_step_of_another_replica_with_it():
    taken = steps(
        (KEY, started()),
        (KEY, Persisted(2, None, None)),
        (OTHER, started()),
        (OTHER, Persisted(1, None, OTHER)),
        (OTHER, RoleChanged("candidate")),
        (KEY, started()),
    )
    assert [step[0] for step in taken] == ["Restart", "Restart", "StartElection", "Restart"]


def test_a_start_with_more_than_the_log_has_shows_a_truncation_that_came_undone():
    entries = [Entry(1, 1, "leader", ""), Entry(2, 1, "data", "x")]
    taken = steps(
        (KEY, started()),
        (KEY, Appended(entries)),
        (KEY, Flushed(2)),
        (KEY, Truncated(1)),
        (KEY, started(end=2, last=1)),
    )
    assert taken[-1] == ("Restart", (1, 1), -1, 0)
