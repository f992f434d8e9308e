"""KIP-856's rules of voter changes, in stories that a random life seldom meets.

Each story is told to the real core twice. Its trace is permitted; and with the rule taken out of the
core it is refused, at the voter change.
"""

from collections.abc import Callable

import pytest

from proofkit.mutation import taken_out
from proofkit.playbook import Playbook
from proofkit.specification import traces
from proofkit.specification.recorder import Trace
from proofkit.specification.simulator_traces import RecordingWatcher
from raftnode.core.membership import voter_changes

pytestmark = [pytest.mark.tlc, pytest.mark.timeout(300)]


def replace_a_disk(book: Playbook) -> None:
    """The replica 3 loses its disk, comes back as 3', is added, and 3 is removed."""
    book.append("1", b"before")
    book.run(1000)
    reborn = book.wipe("3")
    book.run(1500)
    book.add("1", reborn)
    book.run(1000)
    book.remove("1", "3")
    book.run(1000)
    book.append("1", b"after")
    book.run(1000)
    assert book.voters("1") == book.voters("2") == book.voters(reborn)


def two_adds_at_once(book: Playbook) -> None:
    """The leader is asked to add another voter before the first is committed."""
    book.observer("4")
    book.observer("5")
    book.run(1500)
    book.isolate("1")
    book.add("1", "4")
    book.add("1", "5")


def a_change_before_the_own_epoch(book: Playbook) -> None:
    """A leader that has committed no record of its epoch is asked to remove a voter.

    The half that it reaches could commit that removal, and the other half the one of the leader
    before it (`tests/scenarios/test_two_leaders_change.py`).
    """
    book.run(1500)
    book.isolate("1")
    book.remove("1", "4")
    book["1"].flush(book.now_ms)
    book.drop()
    book.crash("1")
    book.isolated = {"1"}
    book["3"].flushes = False
    book.elect("2")
    book.crash("3")
    book.drop()
    book.run(900)
    book.remove("2", "3")
    book.settle()


FOURTH = {a_change_before_the_own_epoch: ("4",)}


def told(story: Callable[[Playbook], None]) -> Trace:
    watcher = RecordingWatcher()
    story(Playbook.formed("1", "2", "3", *FOURTH.get(story, ()), watcher=watcher))
    return watcher.recorder.trace


def changes(trace: Trace) -> int:
    return sum(step[0] in {"AddVoter", "RemoveVoter"} for step in trace.steps)


def test_the_stories_are_permitted():
    recorded = [
        told(story) for story in (replace_a_disk, two_adds_at_once, a_change_before_the_own_epoch)
    ]
    assert [changes(trace) for trace in recorded] == [2, 1, 1]
    refusal = traces.check(recorded)
    assert refusal is None, str(refusal)


@pytest.mark.parametrize(
    ("story", "rule"),
    [
        (two_adds_at_once, "if replica.log.voter_record.offset >= replica.high_watermark:"),
        (
            a_change_before_the_own_epoch,
            "if not leadership.epoch_committed(replica, role):",
        ),
    ],
    ids=["two-changes-at-once", "change-before-own-epoch"],
)
def test_a_change_without_its_rule_is_refused(story, rule):
    before = changes(told(story))
    with taken_out(voter_changes.obstacle, rule, "if False:"):
        trace = told(story)
    assert changes(trace) == before + 1
    refusal = traces.check([trace])
    assert refusal is not None
    assert refusal.breaks is None
    assert refusal.said[0] in {"AddVoter", "RemoveVoter"}, str(refusal)
