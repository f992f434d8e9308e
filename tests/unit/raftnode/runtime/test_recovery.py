"""What a start makes of its settings and its storage reaches the core."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from raftnode.core.config import CoreConfig
from raftnode.core.raft import RaftCore
from raftnode.core.records import Batch
from raftnode.core.types import Epoch, NodeId, Offset
from raftnode.errors import StorageCorruptError
from raftnode.logformat import Record, encode_data_batch, stamp
from raftnode.runtime.process import clock
from raftnode.runtime.recovery import recover
from raftnode.settings import NodeSettings
from raftnode.storage.directory.directory import DataDirectory

SETTINGS = {
    "fetch_timeout_ms": 2001,
    "election_timeout_ms": 1001,
    "election_backoff_max_ms": 1002,
    "fetch_max_wait_ms": 501,
    "request_timeout_ms": 1999,
    "retry_backoff_ms": 21,
    "retry_backoff_max_ms": 1003,
    "fetches_in_flight_max": 3,
    "read_lease_clock_drift_percent": 7,
    "max_uncommitted_bytes": 1 << 21,
    "log_retention_bytes": 5,
}
OTHER_NAMES = {
    "read_lease_clock_drift_percent": "lease_clock_drift_percent",
    "log_retention_bytes": "keeps_every_record",
}
NO_SETTING = {
    "announcements_max",
    "announces_blank",
    "fetch_max_bytes",
    "transfer_again_ms",
    "high_watermark_wait_ms",
    "observers_max",
    "pending_changes_max",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    data.mkdir()
    return data


def start(path: Path, covered: int = 0, records: int = 0, **settings: Any) -> RaftCore:
    directory = DataDirectory.open(path, NodeId(1))
    log = directory.open_log()
    try:
        for offset in range(log.end_offset, records):
            data = stamp(encode_data_batch([Record(b"k", b"v")], 1), Offset(offset), Epoch(1))
            log.append([Batch(Offset(offset), Offset(offset), Epoch(1), data)])
        if records:
            directory.write_quorum_state(replace(directory.quorum_state, epoch=Epoch(1)))
        own = NodeSettings(node_id=1, log_dir=path, **settings)
        return recover(own, directory, log, None, Offset(covered))
    finally:
        log.close()
        directory.close()


@pytest.mark.without("runtime.recovery:recover", "fetch_timeout_ms=settings.fetch_timeout_ms,", "")
@pytest.mark.without(
    "runtime.recovery:recover", "election_timeout_ms=settings.election_timeout_ms,", ""
)
@pytest.mark.without(
    "runtime.recovery:recover", "election_backoff_max_ms=settings.election_backoff_max_ms,", ""
)
@pytest.mark.without(
    "runtime.recovery:recover", "fetch_max_wait_ms=settings.fetch_max_wait_ms,", ""
)
@pytest.mark.without(
    "runtime.recovery:recover", "request_timeout_ms=settings.request_timeout_ms,", ""
)
@pytest.mark.without("runtime.recovery:recover", "retry_backoff_ms=settings.retry_backoff_ms,", "")
@pytest.mark.without(
    "runtime.recovery:recover", "retry_backoff_max_ms=settings.retry_backoff_max_ms,", ""
)
@pytest.mark.without(
    "runtime.recovery:recover", "fetches_in_flight_max=settings.fetches_in_flight_max,", ""
)
@pytest.mark.without(
    "runtime.recovery:recover",
    "lease_clock_drift_percent=settings.read_lease_clock_drift_percent,",
    "",
)
@pytest.mark.without(
    "runtime.recovery:recover", "max_uncommitted_bytes=settings.max_uncommitted_bytes,", ""
)
@pytest.mark.without(
    "runtime.recovery:recover", "keeps_every_record=settings.log_retention_bytes < 0,", ""
)
def test_each_setting_of_the_core_reaches_it(path: Path) -> None:
    config = start(path, **SETTINGS).replica.config
    for name, value in SETTINGS.items():
        if name != "log_retention_bytes":
            assert getattr(config, OTHER_NAMES.get(name, name)) == value, name
    assert not config.keeps_every_record
    assert start(path, log_retention_bytes=-1).replica.config.keeps_every_record


def test_all_that_the_core_is_told_is_a_setting_but_for_a_few_things() -> None:
    told = {OTHER_NAMES.get(name, name) for name in SETTINGS}
    assert {field.name for field in fields(CoreConfig)} - NO_SETTING == told
    for name, value in SETTINGS.items():
        assert NodeSettings.model_fields[name].default != value, name


@pytest.mark.rule("P42", "S32")
@pytest.mark.without("runtime.recovery:recover", "committed_end=covered,", "")
def test_what_a_snapshot_covers_is_known_to_be_committed(path: Path) -> None:
    """Also where the newest snapshot is damaged, and the state goes on from an older one."""
    assert start(path, records=9).replica.high_watermark == 0
    assert start(path, covered=7).replica.high_watermark == 7


@pytest.mark.rule("P42", "S32")
@pytest.mark.without("runtime.recovery:recover", "covered > log.end_offset", "False")
def test_a_log_that_ends_before_what_a_snapshot_covers_is_refused(path: Path) -> None:
    assert start(path, records=7, covered=7).replica.high_watermark == 7
    with pytest.raises(StorageCorruptError, match="up to offset 8, but the log ends at 7"):
        start(path, covered=8)


@pytest.mark.rule("S33")
@pytest.mark.without("runtime.recovery:recover", "quiet_ms=directory.promised_ms,", "")
def test_what_an_earlier_start_promised_is_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "now_ms", lambda: 1_000_000)
    assert start(path).replica.promised_until_ms == 0
    directory = DataDirectory.open(path, NodeId(1))
    directory.write_promise(2500)
    directory.close()
    assert start(path).replica.promised_until_ms == 1_002_500
