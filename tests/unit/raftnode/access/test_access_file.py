"""An access file that changes, breaks, disappears and comes back."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from raftnode.access.access_file import AccessFile, open_access_file
from raftnode.access.access_list import token_hash
from raftnode.access.document import AccessFileError


def write(path: Path, *tokens: str) -> None:
    subjects = [
        {
            "name": token,
            "token_hashes": [token_hash(token.encode())],
            "grants": [{"roles": ["read"]}],
        }
        for token in tokens
    ]
    path.write_text(json.dumps({"subjects": subjects}))


class Observer:
    def __init__(self) -> None:
        self.loaded = 0
        self.refused = 0

    def note_loaded(self, setting: str, unix_s: float) -> None:
        assert setting == "access_file"
        assert unix_s > 0
        self.loaded += 1

    def note_file_refused(self, setting: str) -> None:
        self.refused += 1


def tokens(file: AccessFile) -> set[str]:
    return {subject.name for subject in file.current.by_token.values()}


async def test_a_changed_file_is_in_force_at_the_next_look(tmp_path: Path):
    path = tmp_path / "access.json"
    write(path, "a")
    file, observer = open_access_file(path), Observer()
    file.observe(observer)
    assert not await file.refresh()
    write(path, "a", "b")
    assert await file.refresh()
    assert tokens(file) == {"a", "b"}
    assert (observer.loaded, observer.refused) == (2, 0)


async def test_a_wrong_file_leaves_the_last_good_one_in_force(tmp_path: Path):
    path = tmp_path / "access.json"
    write(path, "a")
    file, observer = open_access_file(path), Observer()
    file.observe(observer)
    before = file.current
    path.write_text("{")
    assert not await file.refresh()
    assert not await file.refresh()
    assert file.current is before
    assert observer.refused == 1
    path.unlink()
    assert not await file.refresh()
    assert file.current is before
    assert observer.refused == 2
    write(path, "a")
    assert not await file.refresh()
    assert file.current is before
    assert observer.loaded == 2
    write(path, "b")
    assert await file.refresh()
    assert tokens(file) == {"b"}


async def test_a_link_that_is_swapped_is_followed(tmp_path: Path):
    """Kubernetes replaces the content of a mounted Secret by a new directory behind a link."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "access.json", name)
    (tmp_path / "..data").symlink_to("old")
    (tmp_path / "access.json").symlink_to("..data/access.json")
    file = open_access_file(tmp_path / "access.json")
    assert tokens(file) == {"old"}
    (tmp_path / "..tmp").symlink_to("new")
    (tmp_path / "..tmp").rename(tmp_path / "..data")
    assert await file.refresh()
    assert tokens(file) == {"new"}


def test_a_file_that_cannot_be_used_is_refused_at_the_start(tmp_path: Path):
    path = tmp_path / "access.json"
    with pytest.raises(
        AccessFileError, match=r"^access_file: .*access\.json cannot be read: No such"
    ):
        open_access_file(path)
    path.write_text('{"subjects": [], "x": 1}')
    with pytest.raises(AccessFileError, match=r"^access_file: .*access\.json: x: is no field"):
        open_access_file(path)
    with pytest.raises(AccessFileError, match="cannot be read: Is a directory"):
        open_access_file(tmp_path)


@pytest.mark.timeout(60)
async def test_a_fifo_is_refused_and_the_next_file_taken(tmp_path: Path):
    """To open one waits for a writer, and that would end the looks for good."""
    path = tmp_path / "access.json"
    write(path, "a")
    file = open_access_file(path)
    path.unlink()
    os.mkfifo(path)
    assert not await file.refresh()
    assert tokens(file) == {"a"}
    path.unlink()
    write(path, "b")
    assert await file.refresh()
    assert tokens(file) == {"b"}
