"""The commands as a user runs them: progress, summary, exit codes, and running them again."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from kraftquorum_pipeline.errors import PipelineExitCode
from kraftquorum_pipeline.jobs.history import TABLES
from proofkit.replicadirs import batches_in, flip, quorum_history, segments, write_quorum

PROGRAM = Path(sys.executable).with_name("kraftquorum-pipeline")
MASTER = "--master=local[2]"
CLUSTER = "TestTestTestTestTestTe"


def run(command, *arguments, code=0, **environment):
    done = subprocess.run(
        [str(PROGRAM), command, *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def last_line(text):
    return text.strip().splitlines()[-1]


def refusal(done):
    """The one line that says why; Spark's own may stand around it."""
    [line] = [one for one in done.stderr.splitlines() if one.startswith("kraftquorum-pipeline: ")]
    return line


def table(path):
    found = ds.dataset(str(path), format="parquet", partitioning="hive").to_table().to_pylist()
    return sorted(found, key=repr)


@pytest.fixture(scope="session")
def exported(recorded, tmp_path_factory, quick_conf):
    """What `export` wrote, and what it said."""
    target = tmp_path_factory.mktemp("exported") / "deep" / "log"
    limit = ("-o", "maxOffsetsPerTrigger=1500")
    done = run(
        "export", f"--path={recorded.root}", f"--output={target}", MASTER, *limit, *quick_conf
    )
    return target, done


@pytest.fixture(scope="session")
def account(recorded, tmp_path_factory):
    """The client's account as it is given to the commands: a line for each write."""
    path = tmp_path_factory.mktemp("account") / "writes.jsonl"
    known, lines = recorded.record, []
    for key, (offset, value) in known.acknowledged.items():
        lines.append((key, value, "acknowledged", offset))
    for key, value in known.unknown.items():
        lines.append((key, value, "unknown", None))
    # Records without a key, that the fixture appended.
    lines += [(None, value, "unknown", None) for value in (b"\xff\x00raw", b"second")]
    with path.open("w") as out:
        for number, (key, value, outcome, offset) in enumerate(lines):
            told = {"key": key, "value_sha256": hashlib.sha256(value).hexdigest()}
            times = {"started_ms": 1.0 + number, "ended_ms": 3.5 + number}
            out.write(json.dumps({**told, "outcome": outcome, "offset": offset, **times}) + "\n")
    return path


def test_export_tells_of_each_batch_and_of_all_of_them(exported):
    target, done = exported
    assert f"cluster {CLUSTER}, committed up to " in done.stderr
    told = re.findall(r"batch (\d+): offsets (\d+) to (\d+), (\d+) rows, .* (\d+)%", done.stderr)
    assert len(told) >= 2, done.stderr
    assert told[-1][4] == "100"
    rows = table(target)
    assert sum(int(one[3]) for one in told) == len(rows)
    summary = rf"{target}: {len(rows)} rows \(\d+ control, \d+ data\) of offsets 0 to {told[-1][2]}"
    assert re.match(summary, last_line(done.stdout))


@pytest.mark.nightly
def test_history_is_written_again_each_time_and_says_what_it_found(exported, tmp_path, quick_conf):
    target, _ = exported
    output = tmp_path / "tables"
    arguments = ("history", f"--tables={target}", f"--output={output}", MASTER, *quick_conf)
    done = run(*arguments)
    # A replica of another id came for one that went: no repair (test_history.py has some).
    assert re.search(r"\d+ elections, 5 voter changes, 0 repairs, at most ", done.stdout)
    assert done.stderr.strip(), "it tells of its progress"
    first = {name: table(output / name) for name in TABLES}
    # As a run that was killed in the middle may leave it.
    shutil.rmtree(output / "elections")
    (output / "repairs" / "_SUCCESS").unlink()
    told = json.loads(last_line(run(*arguments, "--json").stdout))
    assert {name: table(output / name) for name in TABLES} == first
    assert told["repairs"] == first["repairs"] == []
    assert len(first["voter_changes"]) == 5
    assert told["output"] == str(output)


@pytest.mark.nightly
def test_compact_replaces_what_a_killed_run_left(recorded, tmp_path, quick_conf):
    output = tmp_path / "state"
    arguments = ("compact", recorded.root, f"--output={output}", MASTER, *quick_conf)
    done = run(*arguments)
    keys, offset = map(
        int, re.match(rf"{output}: (\d+) keys at offset (\d+)", last_line(done.stdout)).groups()
    )
    assert f"writing the state at offset {offset}" in done.stderr
    first = table(output)
    found = {row["key"].decode(): (row["offset"], row["value"]) for row in first}
    assert len(first) == len(found) == keys
    acknowledged = recorded.record.acknowledged
    assert {key: found.get(key) for key in acknowledged} == acknowledged
    # Half a table, and what Spark had not yet moved.
    (output / "_SUCCESS").unlink()
    part = next(output.glob("*.parquet"))
    shutil.copy(part, output / "part-of-a-killed-run.parquet")
    (output / "_temporary" / "0").mkdir(parents=True)
    told = json.loads(last_line(run(*arguments, "--json").stdout))
    assert (told["keys"], told["offset"]) == (keys, offset)
    assert table(output) == first


def test_count_ends_with_8_for_one_write_that_is_not_there(exported, account, tmp_path, quick_conf):
    target, _ = exported
    more = {"key": "never", "value_sha256": "00", "outcome": "acknowledged", "offset": 7}
    doctored = tmp_path / "writes.jsonl"
    doctored.write_text(account.read_text() + json.dumps(more) + "\n")
    arguments = ("count", target, f"--writes={doctored}", MASTER, *quick_conf)
    done = run(*arguments, code=PipelineExitCode.DIVERGED)
    assert re.search(r"^ +1  missing$", done.stdout, re.MULTILINE)
    assert re.search(r"^ +0  duplicated$", done.stdout, re.MULTILINE)
    assert re.search(r"^ +0  unexpected: no client wrote them$", done.stdout, re.MULTILINE)
    assert last_line(done.stdout) == "    missing: offset 7, key 'never'"


def test_report_is_one_page_and_a_file_that_is_no_verdict_is_refused(
    exported, account, tmp_path, quick_conf
):
    target, _ = exported
    output = tmp_path / "deep" / "report.html"
    arguments = ("report", target, f"--output={output}", MASTER, *quick_conf)
    done = run(*arguments, f"--writes={account}", "--name=the old one", "--title=A history")
    assert last_line(done.stdout) == str(output)
    assert "gathering the figures of the old one" in done.stderr
    page = output.read_text()
    assert "<title>A history</title>" in page
    assert "the old one" in page
    assert "<svg" in page
    assert "://" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", page), "it loads nothing"
    other = tmp_path / "other.json"
    other.write_text("[]")
    refused = run(*arguments, f"--audit={other}", code=PipelineExitCode.USAGE)
    assert refusal(refused) == f"kraftquorum-pipeline: {other} is not a verdict of an audit"
    assert output.read_text() == page


def test_audit_on_spark_tells_damage_by_its_code(tmp_path, quick_conf):
    paths = write_quorum(tmp_path / "damaged", quorum_history())
    segment = segments(paths[1])[2]
    flip(segment, batches_in(segment)[3][0] + 70)
    verdict = tmp_path / "deep" / "audit.json"
    arguments = ("audit", *paths, f"--json={verdict}", MASTER, *quick_conf)
    found = run(*arguments, code=PipelineExitCode.DIVERGED)
    assert re.search(r"reading \d+ segments of 3 replicas", found.stderr)
    assert "FOUND 1  crc" in found.stdout
    assert str(segment) in found.stdout
    told = json.loads(verdict.read_text())
    assert (told["verdict"], told["counts"]) == ("damaged", {"crc": 1})


@pytest.mark.nightly
def test_study_does_all_of_it_and_again_without_a_row_more(recorded, account, tmp_path, quick_conf):
    output = tmp_path / "study"
    arguments = ("study", recorded.root, f"--output={output}", f"--writes={account}", MASTER)
    done = run(*arguments, *quick_conf, "--name=ours")
    assert last_line(done.stdout) == str(output / "report.html")
    assert "The replicas agree." in done.stdout
    summary = json.loads((output / "summary.json").read_text())
    assert (summary["ok"], summary["audit"]) == (True, "ok")
    assert (summary["missing"], summary["duplicated"], summary["unexpected"]) == (0, 0, 0)
    assert summary["acknowledged"] == len(recorded.record.acknowledged)
    assert summary["rows"] == len(table(output / "log")) > summary["acknowledged"]
    assert set(summary["seconds"]) == {"start", "export", "history", "audit", "count", "report"}
    (output / "summary.json").unlink()
    assert "nothing new" in run(*arguments, *quick_conf).stdout
    again = json.loads((output / "summary.json").read_text())
    assert {**again, "seconds": 0} == {**summary, "seconds": 0}


def test_restore_check_against_a_quorum_that_goes_on(
    recorded, tmp_path, restored_quorum, run_async
):
    backup = shutil.copytree(recorded.root, tmp_path / "backup")
    shutil.copytree(recorded.root, tmp_path / "quorum")

    async def work():
        async with restored_quorum(tmp_path / "quorum") as quorum:
            for node in quorum.nodes:
                node.start()
            await quorum.wait_running(quorum.nodes)
            await quorum.leader()
            await quorum.client.put("key-1", b"another value", timeout_ms=15_000)
            servers = ",".join(str(node.api) for node in quorum.nodes)

            def check(*arguments, **more):
                place = f"--bootstrap-server={servers}"
                return asyncio.to_thread(run, "restore-check", *arguments, place, **more)

            done = await check(backup)
            assert "The files restore what the quorum has." in done.stdout
            assert re.search(
                r"keys at offset \d+ in the files; \d+ in the quorum, 1 written", done.stdout
            )
            told = json.loads((await check(backup, "--json")).stdout)
            assert (told["ok"], told["changed"], told["different"]) == (True, 1, 0)
            # The files of another history that has the same cluster id.
            other = write_quorum(tmp_path / "other", quorum_history())
            found = await check(*other, code=PipelineExitCode.DIVERGED)
            assert re.search(r"key '.*' is missing, not what offset \d+ wrote", found.stdout)
            assert re.search(r"^\d+ KEYS DIFFER\.$", last_line(found.stdout))

    run_async(work)
    gone = run("restore-check", backup, "--bootstrap-server=127.60.9.9:9", code=3)
    assert "127.60.9.9:9" in refusal(gone)
