"""What expires is logged once before and once after, and an expired CA masks no other."""

from __future__ import annotations

import datetime as dt

import pytest
from structlog.testing import capture_logs

from proofkit.certificates import HOUR, Authority
from raftnode.tls.files import TlsFiles

from .test_files import look_twice
from .test_material import issue, rules_of

WEEK = 7 * 24 * HOUR


def logged(files: TlsFiles, *times: dt.datetime) -> list[tuple[str, str]]:
    with capture_logs() as lines:
        for now in times:
            files.warn(now)
    return [(line["event"], line["sha256"]) for line in lines]


@pytest.mark.without("tls.expiry:ExpiryLog._is_new", "before.get(use)", '"valid"')
async def test_each_ca_is_logged_once_before_and_once_after_its_expiry(tmp_path):
    authority, old = Authority(valid_for=8 * WEEK), Authority("old", valid_for=3 * WEEK)
    made = issue(tmp_path, authority, also_trusted=[old], valid_for=6 * WEEK)
    files = TlsFiles(rules_of(made))
    sound, ends = (ca.sha256 for ca in files.material.trusted)
    now, own = dt.datetime.now(dt.UTC), files.material.certificate.sha256
    soon, after = now + 2.5 * WEEK, now + 4 * WEEK
    assert logged(files, now, now + WEEK, soon, soon + HOUR) == [("ca_expiry_approached", ends)]
    assert logged(files, after, after + HOUR) == [("ca_expired", ends)]
    # Changed files that still trust it are no news; that its successor ends, is.
    issue(tmp_path, authority, also_trusted=[old], valid_for=7 * WEEK)
    assert await look_twice(files)
    assert logged(files, after) == []
    late = now + 8 * WEEK - HOUR
    assert own != files.material.certificate.sha256
    assert logged(files, late) == [
        ("certificate_expired", files.material.certificate.sha256),
        ("ca_expiry_approached", sound),
    ]
    # Its removal is the end of it; a mistaken return is not silent.
    issue(tmp_path, authority, valid_for=7 * WEEK)
    assert await look_twice(files)
    assert logged(files, after) == []
    issue(tmp_path, authority, also_trusted=[old], valid_for=7 * WEEK)
    assert await look_twice(files)
    assert logged(files, after) == [("ca_expired", ends)]


@pytest.mark.without(
    "tls.expiry:ExpiryLog._report_own", '("own", own.sha256)', '("ca", own.sha256)'
)
@pytest.mark.without(
    "tls.expiry:ExpiryLog.report", "dict.fromkeys(material.trusted)", "material.trusted"
)
def test_a_certificate_that_is_also_trusted_is_logged_once_for_each_use(tmp_path):
    made = issue(tmp_path, valid_for=50 * WEEK)
    made.ca.write_bytes(made.certificate.read_bytes() * 2)
    files = TlsFiles(rules_of(made))
    own = files.material.certificate.sha256
    soon = dt.datetime.now(dt.UTC) + 47 * WEEK
    later, after = soon + 2.5 * WEEK, soon + 4 * WEEK
    assert logged(files, soon, soon + HOUR) == [("certificate_expiry_approached", own)]
    assert logged(files, later, later + HOUR) == [("ca_expiry_approached", own)]
    expired = [("certificate_expired", own), ("ca_expired", own)]
    assert logged(files, after, after + HOUR) == expired


async def test_a_start_beside_an_expired_ca_says_so_and_what_is_left(tmp_path):
    made = issue(tmp_path, Authority(valid_for=8 * WEEK), valid_for=WEEK)
    old = Authority("old", valid_for=-HOUR)
    made.ca.write_bytes(old.pem + made.ca.read_bytes())
    files = TlsFiles(rules_of(made))
    with capture_logs() as lines:
        files.warn(dt.datetime.now(dt.UTC))
    [line] = lines
    assert (line["event"], line["log_level"]) == ("ca_expired", "warning")
    assert (line["listener"], line["common_name"], line["valid_cas"]) == ("peer", "old", 1)
    assert line["not_after"] == files.material.trusted[0].not_after.isoformat()


@pytest.mark.without(
    "tls.material:Material.seconds_left", "accepted_until", "certificate.not_after"
)
def test_a_certificate_whose_ca_has_expired_is_logged_as_expired(tmp_path):
    authority = Authority(valid_for=2 * WEEK)
    made = issue(tmp_path, authority, also_trusted=[Authority(valid_for=60 * WEEK)])
    issue(tmp_path, authority, also_trusted=[Authority(valid_for=60 * WEEK)], valid_for=50 * WEEK)
    files = TlsFiles(rules_of(made))
    with capture_logs() as lines:
        files.warn(dt.datetime.now(dt.UTC) + 3 * WEEK)
    assert [line["event"] for line in lines] == ["certificate_expired", "ca_expired"]
    assert lines[0]["accepted_until"] == files.material.trusted[0].not_after.isoformat()
    assert lines[0]["not_after"] > lines[0]["accepted_until"]
