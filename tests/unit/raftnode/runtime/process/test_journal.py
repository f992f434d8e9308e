"""The journal is as the settings say, and no node dies of a journal that cannot be written."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from raftnode.errors import ExitCode

pytestmark = pytest.mark.timeout(300)
START_S = 110
"""For a Python to start and say its few words, however busy the machine."""

SAY = """
import logging, sys, uuid
import structlog
from raftnode.core.types import NodeId, ReplicaKey
from raftnode.runtime.process.journal import keep_journal
log = structlog.get_logger("raftnode")
keep_journal(sys.argv[1], sys.argv[2])
log.debug("too_fine")
log.info("role_changed", role="leader", replica=ReplicaKey(NodeId(1), uuid.UUID(int=7)))
log.warning("disk_slow", text="a\\nb \\udc80")
try:
    raise ValueError("why")
except ValueError:
    log.exception("node_ended")
logging.getLogger("aiohttp.server").error("request %s failed", 7)
logging.getLogger("asyncio").info("of others \\udc80")
sys.exit(14)
"""

SAY_WHAT_CANNOT_BE_SAID = """
import logging, sys
import structlog
from raftnode.runtime.process.journal import keep_journal
class Wordless:
    def __repr__(self):
        raise ValueError("no words")
log = structlog.get_logger("raftnode")
keep_journal(sys.argv[1], sys.argv[2])
log.warning("of_no_words", value=Wordless())
logging.getLogger("aiohttp.server").error("%s and %s", 7)
logging.getLogger("asyncio").error(Wordless())
log.info("goes_on")
sys.exit(14)
"""

SAY_ON_A_DISK_THAT_IS_FULL_FOR_A_WHILE = """
import resource, sys
import structlog
from raftnode.runtime.process.journal import keep_journal
log = structlog.get_logger("raftnode")
keep_journal(sys.argv[1], sys.argv[2])
most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
log.info("before")
resource.setrlimit(resource.RLIMIT_FSIZE, (150, most))
log.info("cut", text="x" * 200)
log.info("lost")
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
log.info("after")
log.info("last")
sys.exit(14)
"""


def say(log_format: str, log_level: str, out: Path, script: str = SAY) -> tuple[int, str]:
    """Let a process say something; its exit code, and what stands on its stderr."""
    with out.open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-c", script, log_format, log_level],
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=START_S,
        )
    return done.returncode, done.stderr


def test_json_is_a_line_for_each_event_in_short_form(tmp_path):
    assert say("json", "info", tmp_path / "out") == (14, "")
    text = (tmp_path / "out").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["event"] for line in lines] == [
        "role_changed",
        "disk_slow",
        "node_ended",
        "request 7 failed",
        "of others \udc80",
    ]
    assert '"role":"leader"' in text
    assert lines[0]["replica"] == "1-AAAAAAAAAAAAAAAAAAAABw"
    assert (lines[0]["level"], lines[0]["logger"]) == ("info", "raftnode")
    assert "ValueError: why" in lines[2]["exception"]
    assert lines[3]["logger"] == "aiohttp.server"
    assert all(line["timestamp"].endswith("Z") for line in lines)


def test_console_is_for_people(tmp_path):
    assert say("console", "info", tmp_path / "out") == (14, "")
    text = (tmp_path / "out").read_text()
    assert "role_changed" in text
    assert "role=leader" in text
    assert "of others \\udc80" in text
    assert "\033" not in text


@pytest.mark.parametrize(
    ("level", "events"),
    [
        ("debug", 6),
        ("error", 2),
    ],
)
def test_a_level_keeps_what_is_less_severe_out(tmp_path, level, events):
    assert say("json", level, tmp_path / "out") == (14, "")
    assert len((tmp_path / "out").read_text().splitlines()) == events


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_line_that_cannot_be_made_is_told_of_and_raises_nothing(tmp_path, log_format):
    assert say(log_format, "info", tmp_path / "out", SAY_WHAT_CANNOT_BE_SAID) == (14, "")
    first, second, third, last = (tmp_path / "out").read_text().splitlines()
    assert "of_no_words" in first
    assert "ValueError" in first
    assert "warning" in first
    assert "%s and %s" in second
    assert "TypeError" in second
    assert "aiohttp.server" in second
    assert "Wordless" in third
    assert "goes_on" in last


def test_a_line_that_was_cut_short_is_ended_before_the_next(tmp_path):
    script = SAY_ON_A_DISK_THAT_IS_FULL_FOR_A_WHILE
    assert say("json", "info", tmp_path / "out", script) == (14, "")
    before, cut, *rest = (tmp_path / "out").read_text().splitlines()
    assert json.loads(before)["event"] == "before"
    assert cut.startswith('{"text":"xx')
    assert not cut.endswith("}")
    assert [json.loads(line)["event"] for line in rest] == ["after", "last"]


def test_a_full_disk_behind_the_journal_changes_nothing():
    assert say("json", "info", Path("/dev/full")) == (14, "")


def test_a_reader_that_has_gone_changes_nothing():
    process = subprocess.Popen(
        [sys.executable, "-c", SAY, "json", "info"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, said = process.communicate(timeout=START_S)
    assert (process.returncode, said) == (14, "")


def run_nowhere(directory: Path, out: Path, **settings: str) -> tuple[int, dict[str, str]]:
    """Run a node whose directory does not exist: its exit code and its last words."""
    last_words = directory / "last-words"
    with out.open("wb") as file:
        done = subprocess.run(
            [Path(sys.executable).with_name("raftnode"), "run"],
            env={
                "RAFTNODE_NODE_ID": "1",
                "RAFTNODE_LOG_DIR": str(directory / "none"),
                "TERMINATION_LOG": str(last_words),
                **settings,
            },
            stdout=file,
            check=False,
            timeout=START_S,
        )
    return done.returncode, json.loads(last_words.read_text())


def test_a_node_keeps_its_journal_as_its_settings_say(tmp_path):
    run_nowhere(tmp_path, tmp_path / "out")
    [line] = (tmp_path / "out").read_text().splitlines()
    assert json.loads(line)["event"] == "node_ended"
    run_nowhere(tmp_path, tmp_path / "out", RAFTNODE_LOG_FORMAT="console")
    assert " reason=USAGE" in (tmp_path / "out").read_text()


def test_a_node_says_why_it_ends_though_its_journal_is_full(tmp_path):
    code, last_words = run_nowhere(tmp_path, Path("/dev/full"))
    assert (code, last_words["reason"]) == (ExitCode.USAGE, "USAGE")
