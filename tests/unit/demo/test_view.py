"""What a person sees, with and without a terminal."""

import io

from rich.console import Console

from kraftquorum_demo.demo_state import DemoState
from kraftquorum_demo.record import Record
from kraftquorum_demo.resource import Resource
from kraftquorum_demo.rich_view import RichView
from kraftquorum_demo.sample_answers import C2, A, B, C, quorum
from kraftquorum_demo.view import PlainView, View, make_view


def console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=100, force_terminal=terminal, _environ={}), file


def state() -> DemoState:
    record = Record()
    record.acknowledge(record.begin("w0", None, b"v", 1.0), 0, 1.5)
    return DemoState(
        record=record,
        quorum=quorum(A, [A, B, C], observers=[(C2, 0)]),
        resource=Resource(waiting_for="node_answers", message="pod demo-2 does not answer"),
        steps_total=7,
    )


def tell_all(view: View) -> None:
    view.start()
    view.step(2, "Write", "numbered values")
    view.say("2 leads in epoch 1")
    view.tell("    $ kubectl [get] krq")
    view.draw()
    view.stop()


def test_without_a_terminal_there_are_only_lines():
    plain, file = console(terminal=False)
    view = make_view(plain, state(), lambda: 12.34)
    assert isinstance(view, PlainView)
    tell_all(view)
    assert file.getvalue() == (
        "\n2/7 Write\n    numbered values\n   12.3 s  2 leads in epoch 1\n    $ kubectl [get] krq\n"
    )


def test_on_a_terminal_there_is_a_picture_of_the_newest_state():
    terminal, file = console(terminal=True)
    view = make_view(terminal, state(), lambda: 3.0)
    assert isinstance(view, RichView)
    tell_all(view)
    shown = file.getvalue()
    for text in (
        "2/7 Write",
        f"storage {A.directory_id}",
        "waits on node_answers: pod demo-2 does not answer",
        "1 acknowledged",
        "stalled for 1.5 s",
        C2.directory_id,
        "observer",
        "$ kubectl [get] krq",
    ):
        assert text in shown


def test_a_picture_without_a_leader_says_so():
    terminal, file = console(terminal=True)
    tell_all(make_view(terminal, DemoState(), lambda: 0.0))
    assert "no leader" in file.getvalue()
