"""Changed files are taken, and bad ones leave the last good material in force."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from proofkit.certificates import HOUR, SPIFFE, Authority
from raftnode.tls.files import Reload, TlsFiles
from raftnode.tls.material import TlsError

from .test_material import AUTHORITY, CLUSTER, issue, rules_of


def watched(directory: Path) -> tuple[TlsFiles, list[Reload]]:
    reloads: list[Reload] = []
    return TlsFiles(rules_of(issue(directory)), on_reload=reloads.append), reloads


async def look_twice(files: TlsFiles) -> bool:
    """Look until files that change no more are taken; return whether they were."""
    assert not await files.look()
    return await files.look()


async def test_files_that_do_not_change_are_not_read_again(tmp_path):
    files, reloads = watched(tmp_path)
    assert not await files.look()
    assert not await files.look()
    assert (files.version, reloads) == (0, [])


async def test_a_new_certificate_is_taken(tmp_path):
    files, reloads = watched(tmp_path)
    before = files.material.certificate
    issue(tmp_path)
    assert await look_twice(files)
    assert files.material.certificate != before
    assert (files.version, reloads) == (1, [Reload("peer", None)])


async def test_a_bad_file_leaves_the_last_good_in_force(tmp_path):
    files, reloads = watched(tmp_path)
    before = files.material
    files.rules.key_file.write_text("nothing")
    assert not await look_twice(files)
    assert files.material is before
    assert files.problem is not None
    assert str(files.rules.key_file) in files.problem
    for _ in range(3):  # it is reported once
        assert not await look_twice(files)
    assert [reload.problem for reload in reloads] == [files.problem]
    issue(tmp_path)
    assert await look_twice(files)
    assert files.problem is None
    assert reloads[-1] == Reload("peer", None)


async def test_a_missing_file_leaves_the_last_good_in_force(tmp_path):
    files, reloads = watched(tmp_path)
    before = files.material
    files.rules.certificate_file.unlink()
    assert not await look_twice(files)
    assert files.material is before
    assert len(reloads) == 1


async def test_a_certificate_of_another_cluster_is_not_taken(tmp_path):
    files, _ = watched(tmp_path)
    before = files.material
    issue(tmp_path, uris=[f"{SPIFFE}/Other/node/1"])
    assert not await look_twice(files)
    assert files.material is before


async def test_a_swapped_link_is_seen(tmp_path):
    """Kubernetes mounts `tls.crt` as a link to `..data/tls.crt`, and swaps the link `..data`."""
    for name in ("..one", "..two"):
        issue(tmp_path / name)
    (tmp_path / "..data").symlink_to("..one")
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    mounted = issue(tmp_path / "elsewhere")
    rules = rules_of(type(mounted)(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt"))
    files = TlsFiles(rules)
    before = files.material.certificate
    (tmp_path / "..new").symlink_to("..two")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert await look_twice(files)
    assert files.material.certificate != before


async def test_files_replaced_one_after_the_other(tmp_path):
    files, _ = watched(tmp_path)
    other = issue(tmp_path / "other")
    files.rules.certificate_file.write_bytes(other.certificate.read_bytes())
    assert not await look_twice(files)
    files.rules.key_file.write_bytes(other.key.read_bytes())
    assert await look_twice(files)
    assert files.problem is None


@pytest.mark.without("tls.material:Material.is_like", "other.chain,", "self.chain,")
async def test_a_certificate_between_the_nodes_and_the_ca_is_a_change(tmp_path):
    files, _ = watched(tmp_path)
    with files.rules.certificate_file.open("ab") as file:
        file.write(Authority().pem)
    assert await look_twice(files)
    assert len(files.material.chain) == 1


async def test_a_new_ca_is_a_change(tmp_path):
    files, _ = watched(tmp_path)
    files.rules.ca_file.write_bytes(AUTHORITY.pem + Authority().pem)
    assert await look_twice(files)
    assert len(files.material.trusted) == 2


def test_a_start_with_bad_files_is_refused(tmp_path):
    made = issue(tmp_path)
    made.key.unlink()
    with pytest.raises(TlsError, match="peer_tls_key_file"):
        TlsFiles(rules_of(made))


async def test_the_cluster_that_the_node_joined_counts(tmp_path):
    made = issue(tmp_path)
    joined: list[str] = []
    files = TlsFiles(
        rules_of(made, cluster_id=None), cluster_id=lambda: joined[0] if joined else None
    )
    joined.append("Other")
    made.ca.write_bytes(AUTHORITY.pem + Authority().pem)
    assert not await look_twice(files)
    assert files.problem is not None
    assert f"{SPIFFE}/Other/node/1" in files.problem
    assert CLUSTER in files.problem


async def test_an_expiry_is_logged_before_and_after(tmp_path):
    authority = Authority(valid_for=9999 * HOUR)
    files = TlsFiles(rules_of(issue(tmp_path, authority)))
    material = files.material
    end, lifetime = material.certificate.not_after, dt.timedelta(seconds=material.lifetime_s)
    with capture_logs() as lines:
        for share in (0.5, 0.11, 0.09, 0.05, -0.01, -0.02):
            files.warn(end - lifetime * share)
        issue(tmp_path, authority)
        assert await look_twice(files)
        files.warn(dt.datetime.now(dt.UTC))
        files.warn(files.material.certificate.not_after)
    events = [line["event"] for line in lines]
    assert events == [
        "certificate_expiry_approached",
        "certificate_expired",
        "certificate_loaded",
        "certificate_expired",
    ]
