"""The check of commit subjects: what passes, and what it says of what does not."""

import subprocess
import sys
from pathlib import Path

import pytest

import check_commits

WORDS = check_commits.avoided_words()


@pytest.mark.parametrize(
    "subject",
    [
        "operator: retry a refused eviction less often",
        "core, node: exit when the disk stalls",
        "tests/lib: seed the world model",
        'Revert "operator: retry"',
    ],
)
def test_passes(subject):
    assert check_commits.faults(subject, WORDS) == []


@pytest.mark.parametrize(
    ("subject", "says"),
    [
        ("Let no stall decide", "not `area: imperative outcome`"),
        ("operator retry", "not `area: imperative outcome`"),
        ("operator: retried an eviction", "`retried` is not an imperative"),
        ("operator: retrying an eviction", "`retrying` is not an imperative"),
        ("operator: retry an eviction.", "full stop"),
        ("operator: tell nobody", "`nobody`: see docs/contributing/"),  # codespell:ignore nobody
        (f"operator: {'retry ' * 14}", "at most 80"),
        ("", "not `area: imperative outcome`"),
    ],
)
def test_is_refused_with_the_reason(subject, says):
    assert says in " ".join(check_commits.faults(subject, WORDS))


def test_reads_a_message_as_the_hook_gives_it(tmp_path):
    message = tmp_path / "COMMIT_EDITMSG"
    program = [sys.executable, Path(check_commits.__file__), message]
    message.write_text("operator: retry\n\nThe why, by somebody.\n")  # codespell:ignore somebody
    assert subprocess.run(program, check=False).returncode == 0
    message.write_text("Retry\n")
    done = subprocess.run(program, check=False, capture_output=True, text=True)
    assert (done.returncode, "'Retry'" in done.stdout) == (1, True)


def test_a_clone_without_the_history_is_not_refused():
    assert check_commits.subjects_since("0" * 40) is None
