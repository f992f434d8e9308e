"""README's block of figures: what the demo prints today, from one whole run."""

import json
import re

import pytest

from kraftquorum_demo import excerpt
from kraftquorum_demo.report import LIMITS_S, targets

REPORT = {
    "ok": True,
    "short": False,
    "acknowledged": 7882,
    "unknown": 13,
    "unknown_found": 10,
    "lost": 0,
    "duplicated": 0,
    "out_of_order": 0,
    "seconds": {"first_leader": 5.312, **dict.fromkeys(LIMITS_S, 1.234)},
    "targets": targets(dict.fromkeys(LIMITS_S, 1.234)),
}


def block_in_readme():
    text = excerpt.README.read_text(encoding="utf-8")
    return text.partition(excerpt.BEGIN)[2].partition(excerpt.END)[0].strip()


def report_of(block):
    """The figures of a block as a report: the block's counts, and its times in their order."""
    counts = {name: int(re.search(rf" {name}  (\d+)", block)[1]) for name in excerpt.COUNTS_SHOWN}
    written = re.search(r"\((\d+) of them turned out to be written\)", block)
    times = [float(text) for text in re.findall(r" (\d+\.\d) s", block)]
    seconds = dict(zip(LIMITS_S, times, strict=True))
    return {
        **REPORT,
        **counts,
        "unknown_found": 0 if written is None else int(written[1]),
        "seconds": seconds,
        "targets": targets(seconds),
    }


def test_readmes_block_is_what_the_demo_prints():
    block = block_in_readme()
    assert excerpt.excerpt(report_of(block)) == block


def test_the_block_has_the_promised_figures_of_a_report():
    lines = excerpt.excerpt(REPORT).splitlines()
    assert lines[1:5] == [
        "      acknowledged  7882",
        "           unknown  13   (10 of them turned out to be written)",
        "              lost  0",
        "        duplicated  0",
    ]
    assert len(lines) == 1 + 4 + len(LIMITS_S) + 1 + 1
    assert all("(limit" in line for line in lines[5 : 5 + len(LIMITS_S)])


def test_a_page_keeps_its_text_around_the_block(tmp_path, monkeypatch):
    page, report = tmp_path / "README.md", tmp_path / "report.json"
    page.write_text(f"before\n{excerpt.BEGIN}\nold\n{excerpt.END}\nafter\n")
    report.write_text(json.dumps(REPORT))
    monkeypatch.setattr(excerpt, "README", page)
    assert excerpt.main([str(report)]) == 0
    block = excerpt.excerpt(REPORT)
    assert page.read_text() == f"before\n{excerpt.BEGIN}\n{block}\n{excerpt.END}\nafter\n"


def test_a_page_without_the_marks_is_left_as_it_is():
    with pytest.raises(ValueError, match="is missing"):
        excerpt.with_excerpt("no marks", REPORT)


@pytest.mark.parametrize(
    "change",
    [
        {"ok": False},
        {"short": True},
        {"seconds": {"whole_demo": 1.0}},
        {"targets": targets({"leader_disk": 31.0})},
    ],
)
def test_a_run_that_was_not_whole_or_broke_a_promise_is_not_shown(change):
    with pytest.raises(ValueError, match="the run"):
        excerpt.excerpt({**REPORT, **change})
