"""Each gauge of a quorum that moves, held against what stands on the disks and in the script.

What is expected is never read from a core: offsets and epochs come from the disks' batches and
quorum-states, the rest from what the script made happen. Each line that sets a gauge is broken
once, by a constant or a neighbour's value, and the test must notice (P58, P59).
"""

from __future__ import annotations

import functools

import pytest
from prometheus_client import CollectorRegistry

from proofkit.playbook import Playbook
from proofkit.playbook.message import key_of
from raftnode.core.effects import VoterChangeCompleted
from raftnode.core.events import AddVoterRequested
from raftnode.core.types import Endpoint, Voter, format_directory_id
from raftnode.runtime.description import present
from raftnode.runtime.metrics.gauges import Gauges
from raftnode.runtime.metrics.leader_metrics import LeaderCollector, view_of
from raftnode.runtime.metrics.node_metrics import NodeMetrics
from raftnode.runtime.process import clock

from .disk_readings import Fetches, committed_end, durable_end, voter_record_offset

SHOW = "runtime.metrics.gauges:Gauges.show"
ROWS = "runtime.metrics.node_metrics:NodeMetrics"
CHANGES = "runtime.metrics.node_metrics:NodeView.changes"
COLLECT = "runtime.metrics.leader_metrics:LeaderCollector.collect"
SHOWN = "family.add_metric(labels, value)"


class Writes:
    """As much of the runtime's appends as the gauges look at; no core takes part in it."""

    queued_bytes = 70
    appended_records = 3
    pending = 2


class Shown:
    """The metrics of each node, scraped at the table's time."""

    def __init__(self, book: Playbook) -> None:
        self.book = book
        self.registries: dict[str, CollectorRegistry] = {}
        self.gauges: dict[str, Gauges] = {}

    def sit(self, *names: str) -> None:
        """Attach metrics to the cores of these nodes, as a node does when it starts."""
        for name in names:
            replica = self.book[name].replica
            registry = self.registries[name] = CollectorRegistry()
            self.gauges[name] = Gauges(NodeMetrics(registry), replica, Writes(), "1.2")
            view = functools.partial(lambda core: view_of(present(core)), replica)
            LeaderCollector(view, registry)

    def value(self, name: str, metric: str, **labels: str) -> float | None:
        return self.registries[name].get_sample_value(f"raftnode_{metric}", labels)

    def peer(self, name: str, metric: str, of: str, role: str = "voter") -> float | None:
        key = key_of(of)
        return self.value(
            name,
            f"peer_{metric}",
            peer_id=str(key.node_id),
            peer_directory_id=format_directory_id(key.directory_id),
            peer_role=role,
        )

    def role(self, name: str) -> str:
        """The role whose series is 1."""
        [family] = [
            family
            for family in self.registries[name].collect()
            if family.name == "raftnode_current_state"
        ]
        [role] = [next(iter(s.labels.values())) for s in family.samples if s.value]
        return role

    def vote_directory(self, name: str) -> str:
        [family] = [
            family
            for family in self.registries[name].collect()
            if family.name == "raftnode_current_vote_directory"
        ]
        [sample] = family.samples
        return sample.labels["directory_id"]


@pytest.fixture
def book(monkeypatch: pytest.MonkeyPatch) -> Playbook:
    made = Playbook.formed("1", "2", "3")
    monkeypatch.setattr(clock, "now_ms", lambda: made.now_ms)
    return made


@pytest.fixture
def shown(book: Playbook) -> Shown:
    made = Shown(book)
    made.sit("1", "2", "3")
    return made


def on_disk(book: Playbook, shown: Shown, *names: str) -> None:
    """What each node's metrics say of its own log and vote is what its disk holds."""
    for name in names:
        shown.gauges[name].show()
        disk = book[name].disk
        own = functools.partial(shown.value, name)
        assert own("log_start_offset") == disk.start, name
        assert own("log_end_offset") == disk.log[-1].end_offset, name
        assert own("log_end_epoch") == disk.log[-1].epoch, name
        assert own("durable_end_offset") == durable_end(book, name), name
        assert own("current_epoch") == disk.state.epoch, name
        assert own("voter_record_offset") == voter_record_offset(book, name), name
        voted = disk.state.voted
        assert own("current_vote") == (-1 if voted is None else voted.node_id), name
        directory = "" if voted is None else format_directory_id(voted.directory_id)
        assert shown.vote_directory(name) == directory, name


@pytest.mark.rule("P58")
@pytest.mark.without(f"{ROWS}.current_state.source", "role_of(view.replica)", '"follower"')
@pytest.mark.without(f"{ROWS}.current_leader.source", "_node_id(view.replica.leader)", "1")
@pytest.mark.without(f"{ROWS}.current_epoch.source", "view.replica.epoch", "1")
@pytest.mark.without(f"{ROWS}.current_vote.source", "_node_id(view.replica.state.voted)", "-1")
@pytest.mark.without(
    f"{ROWS}.current_vote.source", "view.replica.state.voted", "view.replica.leader"
)
@pytest.mark.without("runtime.metrics.node_metrics:_voted_directory", "voted is None", "True")
@pytest.mark.without(f"{ROWS}.log_start_offset.source", "view.log.start", "0")
@pytest.mark.without(f"{ROWS}.log_end_offset.source", "view.log.end", "0")
@pytest.mark.without(f"{ROWS}.log_end_offset.source", "view.log.end", "view.log.durable_end")
@pytest.mark.without(f"{ROWS}.log_end_epoch.source", "view.log.last_epoch", "1")
@pytest.mark.without(f"{ROWS}.durable_end_offset.source", "view.log.durable_end", "view.log.end")
@pytest.mark.without(f"{ROWS}.high_watermark.source", "view.replica.high_watermark", "0")
@pytest.mark.without(
    f"{ROWS}.high_watermark.source", "view.replica.high_watermark", "view.log.durable_end"
)
@pytest.mark.without(f"{ROWS}.voter_record_offset.source", "view.log.voter_record.offset", "0")
@pytest.mark.without(f"{ROWS}.append_queue_bytes.source", "view.appends.queued_bytes", "0")
@pytest.mark.without(f"{ROWS}.appends_pending.source", "view.appends.pending", "0")
@pytest.mark.without(
    f"{ROWS}.caught_up.source", "is_caught_up(present(view.replica), view.replica.config)", "True"
)
@pytest.mark.without(
    f"{ROWS}.caught_up.source", "is_caught_up(present(view.replica), view.replica.config)", "False"
)
@pytest.mark.without(
    f"{ROWS}.uncommitted_bytes.source", "view.leader.uncommitted.size if view.leader else 0", "0"
)
@pytest.mark.without(SHOW, "self._metrics.refresh(self._view())", "pass")
@pytest.mark.without(SHOW, "self._appended = appended", "pass")
def test_a_nodes_own_gauges_follow_its_disk_and_its_quorum(book: Playbook, shown: Shown):
    """Leader 1 writes; 3 is cut off, then 1 is, and another replica leads a later epoch."""
    on_disk(book, shown, "1", "2", "3")
    assert [shown.role(name) for name in "123"] == ["leader", "follower", "follower"]
    assert [shown.value(name, "current_leader") for name in "123"] == [1, 1, 1]
    assert [shown.value(name, "caught_up") for name in "123"] == [1, 1, 1]

    book.isolate("3")
    for _ in range(4):
        book.append("1", b"x" * 100)
    book["1"].flushes = False
    book.append("1", b"y" * 37)
    book.settle()
    assert durable_end(book, "1") < book["1"].disk.log[-1].end_offset
    on_disk(book, shown, "1", "2", "3")
    assert shown.value("1", "high_watermark") == committed_end(book, "1", "2", "3")
    waiting = [b for b in book["1"].disk.log if b.base_offset >= committed_end(book, *"123")]
    assert shown.value("1", "uncommitted_bytes") == sum(len(batch.data) for batch in waiting) > 0

    book["1"].flushes = True
    book.run(400)
    book.isolate("1", "3")
    book.append("1", b"never committed")
    book.settle()
    committed = committed_end(book, "1", "2", "3")
    on_disk(book, shown, "1", "2", "3")
    assert shown.value("1", "high_watermark") == committed < durable_end(book, "1")
    assert shown.value("3", "high_watermark") < committed

    book.heal()
    book.isolate("1")
    book.run(5000)
    [new] = set(book.leaders) - {"1"}
    old_epoch = book["1"].disk.state.epoch
    book.append(new, b"in the new epoch")
    book.settle()
    on_disk(book, shown, "1", "2", "3")
    assert shown.value(new, "current_epoch") > old_epoch >= 1
    for name in "23":
        assert shown.value(name, "current_leader") == int(new)
        assert shown.role(name) == ("leader" if name == new else "follower")
    assert shown.value(new, "high_watermark") == committed_end(book, "2", "3")
    assert shown.value(new, "uncommitted_bytes") == 0
    assert shown.role("1") != "leader"
    assert shown.value("1", "caught_up") == 0

    book[new].snapshot(book.now_ms, trim_to=3)
    on_disk(book, shown, new)
    assert shown.value(new, "log_start_offset") == 3
    for name in "123":
        assert shown.value(name, "append_queue_bytes") == 70
        assert shown.value(name, "appends_pending") == 2
        assert shown.value(name, "appended_records_total") == 3


def counts(shown: Shown, name: str) -> dict[str, float | None]:
    shown.gauges[name].show()
    names = (
        "voters",
        "possible_voters",
        "observers",
        "pending_add_voter",
        "pending_remove_voter",
        "uncommitted_voter_change",
        "unknown_voter_connections",
    )
    return {metric: shown.value(name, metric) for metric in names}


@pytest.mark.rule("P58", "P59")
@pytest.mark.without(f"{ROWS}.voters.source", "len(view.log.voters)", "3")
@pytest.mark.without(
    f"{ROWS}.unknown_voter_connections.source",
    "sum(voter.endpoint is None for voter in view.log.voters.voters)",
    "0",
)
@pytest.mark.without(
    f"{ROWS}.unknown_voter_connections.source", "voter.endpoint is None for", "True for"
)
@pytest.mark.without(f"{ROWS}.observers.source", "len(view.observers)", "0")
@pytest.mark.without(
    f"{ROWS}.possible_voters.source",
    "sum(observer.could_be_voter for observer in view.observers)",
    "0",
)
@pytest.mark.without(f"{ROWS}.pending_add_voter.source", 'view.changes("add")', "0")
@pytest.mark.without(f"{ROWS}.pending_remove_voter.source", 'view.changes("remove")', "0")
@pytest.mark.without(CHANGES, "change.kind == kind", "True")
@pytest.mark.without(
    f"{ROWS}.uncommitted_voter_change.source",
    "view.log.voter_record.offset >= view.replica.high_watermark",
    "False",
)
@pytest.mark.without(
    f"{ROWS}.uncommitted_voter_change.source",
    "view.log.voter_record.offset >= view.replica.high_watermark",
    "True",
)
def test_voters_observers_and_changes_are_counted_as_they_come_and_go(book: Playbook, shown: Shown):
    """4 and 5 observe; adding 4 waits for a majority, and what is asked next waits for that."""
    at_rest = {
        "voters": 3,
        "possible_voters": 0,
        "observers": 0,
        "pending_add_voter": 0,
        "pending_remove_voter": 0,
        "uncommitted_voter_change": 0,
        "unknown_voter_connections": 3,
    }
    assert counts(shown, "1") == at_rest
    book.observer("4")
    book.observer("5")
    book.run(1500)
    shown.sit("4")
    observed = at_rest | {"possible_voters": 2, "observers": 2}
    assert counts(shown, "1") == observed
    assert counts(shown, "2") == counts(shown, "4") == at_rest

    book["2"].flushes = book["3"].flushes = False
    record = book["1"].replica.log.voter_record
    asked = book.ask(
        "1",
        lambda number: AddVoterRequested(
            number, Voter(key_of("4"), Endpoint("four", 9093)), record, book.now_ms + 60_000
        ),
    )
    assert counts(shown, "1") == observed | {"pending_add_voter": 1}
    book.run(600)
    after = {
        "voters": 4,
        "possible_voters": 1,
        "observers": 1,
        "pending_add_voter": 1,
        "uncommitted_voter_change": 1,
        "unknown_voter_connections": 3,
    }
    assert book.answer(asked) is None
    assert counts(shown, "1") == observed | after
    for name in "23":
        book.remove("1", name, within_ms=60_000)
    assert counts(shown, "1") == observed | after | {"pending_remove_voter": 2}

    book["2"].flushes = book["3"].flushes = True
    book.settle()
    assert isinstance(book.answer(asked), VoterChangeCompleted)
    book.run(2000)
    assert book.voters("1") == "{1,3,4}"  # 3 was to go from another set
    done = {"voters": 3, "possible_voters": 2, "observers": 2, "unknown_voter_connections": 2}
    assert counts(shown, "1") == at_rest | done


@pytest.mark.rule("P58")
@pytest.mark.without(
    COLLECT,
    SHOWN,
    "family.add_metric(labels, 1 if row.name.endswith('fault_tolerance') else value)",
)
@pytest.mark.without(
    COLLECT, SHOWN, "family.add_metric(labels, 1 if row.name.endswith('peer_caught_up') else value)"
)
@pytest.mark.without(
    COLLECT, SHOWN, "family.add_metric(labels, 0 if row.name.endswith('lag_records') else value)"
)
@pytest.mark.without(
    COLLECT, SHOWN, "family.add_metric(labels, 0.1 if row.name.endswith('lag_seconds') else value)"
)
@pytest.mark.without(
    COLLECT,
    SHOWN,
    "family.add_metric(labels, 0.1 if row.name.endswith('fetch_age_seconds') else value)",
)
@pytest.mark.without(
    "runtime.metrics.leader_metrics:fault_tolerance", "voter.caught_up for", "True for"
)
def test_the_leaders_view_of_the_others_is_what_they_have_and_when_they_asked(
    book: Playbook, shown: Shown
):
    """3 is cut off, and 4, whose disk is slow, is never where the leader is."""
    fetches = Fetches(book, "1")
    book.observer("4")
    book.run(1500)
    book.isolate("3")
    book["4"].flushes = False
    for number in range(6):
        book.append("1", b"early %d" % number)
        book.run(100)
        book.append("1", b"late %d" % number)
        book["4"].flush(book.now_ms)
        book.run(200)
        end = book["1"].disk.log[-1].end_offset
        for name, role in (("2", "voter"), ("3", "voter"), ("4", "observer")):
            lag = shown.peer("1", "lag_records", name, role)
            assert lag == end - durable_end(book, name)
            age_s = shown.peer("1", "fetch_age_seconds", name, role)
            assert age_s == (book.now_ms - fetches.last_ms[name]) / 1000
            behind_s = shown.peer("1", "lag_seconds", name, role)
            assert behind_s == (book.now_ms - fetches.whole_ms[name]) / 1000
    assert shown.peer("1", "lag_records", "1") == shown.peer("1", "lag_records", "2") == 0
    lags = [shown.peer("1", "lag_records", "3"), shown.peer("1", "lag_records", "4", "observer")]
    assert lags == [12, 2]
    assert fetches.last_ms["4"] > fetches.whole_ms["4"]

    assert shown.value("1", "fault_tolerance") == 1
    book.run(fetches.last_ms["3"] + book.config.fetch_timeout_ms + 1 - book.now_ms)
    assert shown.value("1", "fault_tolerance") == 0
    assert [shown.peer("1", "caught_up", name) for name in "123"] == [1, 1, 0]
    assert shown.value("2", "fault_tolerance") is None
