"""The picture can be drawn, from a full history and from a poor one."""

from kraftquorum_demo.history import Fault, History, Span, StepSpan
from kraftquorum_demo.record import Stall
from kraftquorum_demo.sample_answers import C2, A, B, C, quorum
from kraftquorum_demo.timeline import draw


def test_a_full_history_is_drawn(tmp_path):
    history = History(steps=[StepSpan("Write", Span(0.5))])
    history.observe(quorum(A, [A, B, C], observers=[(C2, 0)]), 1.0)
    history.observe(None, 4.0)
    history.observe(quorum(B, [A, B, C2], epoch=3), 6.0)
    history.faults += [Fault(3.9, "kill", violent=True), Fault(4.0, "scale", violent=False)]
    history.close(10.0)
    path = tmp_path / "timeline.png"
    draw(path, history, [1.0 + n / 50 for n in range(400)], [Stall(4.0, 6.0)], 10.0)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 20_000


def test_a_run_without_a_write_is_drawn_too(tmp_path):
    history = History(steps=[StepSpan("Apply", Span(0.0, 1.0))])
    history.observe(quorum(A, [A]), 0.5)
    history.close(1.0)
    draw(tmp_path / "timeline.png", history, [], [], 1.0)
    assert (tmp_path / "timeline.png").exists()
