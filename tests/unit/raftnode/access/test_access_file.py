"""An access file that changes, breaks, disappears and comes back."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from raftnode.access.access_file import AccessFile, FollowedFile, open_access_file
from raftnode.access.access_list import token_hash
from raftnode.access.document import FILE_BYTES_MAX, AccessFileError
from raftnode.followed_files import RETRY_LOOKS


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


async def look_twice(file: AccessFile) -> bool:
    """Look until a file that changes no more is taken; return whether it was another."""
    assert not await file.refresh()
    return await file.refresh()


async def test_a_changed_file_is_in_force_at_the_second_look(tmp_path: Path):
    path = tmp_path / "access.json"
    write(path, "a")
    file, observer = open_access_file(path), Observer()
    file.observe(observer)
    assert not await file.refresh()
    write(path, "a", "b")
    assert await look_twice(file)
    assert tokens(file) == {"a", "b"}
    assert (observer.loaded, observer.refused) == (2, 0)


async def test_a_wrong_file_leaves_the_last_good_one_in_force(tmp_path: Path):
    path = tmp_path / "access.json"
    write(path, "a")
    file, observer = open_access_file(path), Observer()
    file.observe(observer)
    before = file.current
    path.write_text("{")
    assert not await look_twice(file)
    assert not await look_twice(file)
    assert file.current is before
    assert observer.refused == 1
    path.unlink()
    assert not await look_twice(file)
    assert file.current is before
    assert observer.refused == 2
    write(path, "a")
    assert not await look_twice(file)
    assert file.current is before
    assert observer.loaded == 2
    write(path, "b")
    assert await look_twice(file)
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
    assert await look_twice(file)
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
    assert not await look_twice(file)
    assert tokens(file) == {"a"}
    path.unlink()
    write(path, "b")
    assert await look_twice(file)
    assert tokens(file) == {"b"}


WHOLE = """\
subjects:
- name: a
  token_hashes: [{a}]
  grants:
  - roles: [read]
    key_prefixes: [app/]
- name: b
  token_hashes: [{b}]
  grants: [{{roles: [read]}}]
""".format(a=token_hash(b"a"), b=token_hash(b"b"))


@pytest.mark.without(
    "followed_files:FollowedFiles.look", "if self._settled and stamps != last_stamps:", "if False:"
)
async def test_a_part_of_a_yaml_file_that_is_being_written_is_never_in_force(tmp_path: Path):
    """Each line of the file ends a document that is valid, and one of them grants all keys."""
    path = tmp_path / "access.yaml"
    path.write_text(WHOLE)
    file = open_access_file(path)
    before = file.current
    with path.open("w") as written:
        for line in WHOLE.splitlines(keepends=True):
            written.write(line)
            written.flush()
            assert not await file.refresh()
            assert file.current is before
    path.write_text(WHOLE.replace("name: b", "name: other"))
    assert await look_twice(file)
    assert tokens(file) == {"a", "other"}


async def test_a_file_that_changes_while_it_is_read_is_not_taken(tmp_path: Path):
    path = tmp_path / "access.json"
    write(path, "a")
    reads: list[bytes] = []

    def parse(data: bytes) -> bytes:
        reads.append(data)
        if data == b"new":
            path.write_bytes(b"newer")
        return data

    file = FollowedFile("access_file", path, parse)
    path.write_bytes(b"new")
    for _ in range(2):
        assert not await file.refresh()
    assert reads[1:] == [b"new"]
    assert file.current == reads[0]
    assert await look_twice(file)
    assert file.current == b"newer"


@pytest.mark.without(
    "followed_files:FollowedFiles.look",
    "if not changed and not self._is_time_to_retry():",
    "if not changed and self._problem is None:",
)
async def test_a_refused_file_is_not_parsed_at_each_look(tmp_path: Path):
    path = tmp_path / "access.json"
    write(path, "a")
    reads: list[bytes] = []

    def parse(data: bytes) -> bytes:
        reads.append(data)
        if data == b"wrong":
            raise AccessFileError("is wrong")
        return data

    file, observer = FollowedFile("access_file", path, parse), Observer()
    file.observe(observer)
    path.write_bytes(b"wrong")
    for _ in range(RETRY_LOOKS // 2):
        assert not await file.refresh()
    assert len(reads) == 2
    for _ in range(RETRY_LOOKS):
        assert not await file.refresh()
    assert len(reads) == 3
    assert observer.refused == 1
    path.write_bytes(b"wrong")
    for _ in range(5):
        assert not await file.refresh()
    assert observer.refused == 2, "it was written again"


async def test_a_file_that_is_too_large_is_refused_with_its_size_and_the_limit(tmp_path: Path):
    path = tmp_path / "access.json"
    write(path, "a")
    file = open_access_file(path)
    path.write_bytes(b" " * 3 * FILE_BYTES_MAX)
    with capture_logs() as logged:
        assert not await look_twice(file)
    [line] = logged
    assert f"has {3 * FILE_BYTES_MAX} bytes; a file of access control" in line["problem"]
    assert f"at most {FILE_BYTES_MAX}," in line["problem"]
    assert tokens(file) == {"a"}


async def test_a_file_is_parsed_on_another_thread(tmp_path: Path):
    """YAML of the largest size takes seconds."""
    path = tmp_path / "access.json"
    write(path, "a")
    threads: list[threading.Thread] = []

    def parse(_: bytes) -> None:
        threads.append(threading.current_thread())

    file = FollowedFile("access_file", path, parse)
    write(path, "a", "b")
    await look_twice(file)
    assert threads[1:]
    assert threads[1] is not threading.current_thread()
