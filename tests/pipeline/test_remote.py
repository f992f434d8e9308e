"""Replicas' directories behind a URI, by a file system in memory that pyarrow brings (`mock://`).

It is asked by the same calls as S3's; what only a store over the network does (an answer that
does not come) is asked of one that no server serves.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.fs import FileSystem
from typer.testing import CliRunner

from kraftquorum_pipeline import remote
from kraftquorum_pipeline.cli import make_app
from kraftquorum_pipeline.errors import CorruptError, OptionError, TrimmedError, UnreachableError
from kraftquorum_pipeline.remote import open_files, path_of
from kraftquorum_pipeline.source.files import FileLog
from kraftquorum_pipeline.source.options import parse_options
from proofkit.replicadirs import batches_in, flip, quorum_history, segments, write_quorum
from raftnode.errors import RaftnodeError
from raftnode.logfiles import LOG_DIRECTORY

URI = "mock:///quorum%20one"


@dataclass
class Store:
    """A store, and the directory whose copy it holds."""

    system: FileSystem
    root: Path

    def put(self, path: Path) -> None:
        self.system.create_dir(str(Path(self.key(path)).parent))
        with self.system.open_output_stream(self.key(path)) as stream:
            stream.write(path.read_bytes())

    def key(self, path: Path) -> str:
        return f"quorum one/{path.relative_to(self.root)}"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return write_quorum(tmp_path_factory.mktemp("written"), quorum_history())[0].parent


@pytest.fixture
def store(written, tmp_path):
    root = tmp_path / "quorum one"
    shutil.copytree(written, root)
    remote._system.cache_clear()
    system, _ = remote._system("mock:///")
    made = Store(system, root)
    for path in root.rglob("*"):
        if path.is_file():
            made.put(path)
    return made


def options(path: object):
    return parse_options({"path": str(path), "partitionBytes": "65536"})


def read(log: FileLog) -> pa.Table:
    parts = log.parts(0, log.look().end)
    return pa.Table.from_batches([batch for part in parts for batch in part.read()])


def run(*arguments: object):
    return CliRunner().invoke(make_app(str(arguments[0])), list(map(str, arguments)))


def test_the_log_is_the_same_as_from_the_directory(store):
    log = FileLog(options(URI))
    assert read(log).equals(read(FileLog(options(store.root))))
    assert log.look().source.startswith("mock:///quorum%20one/node-")


def test_an_audit_says_the_same_and_names_the_object(store):
    segment = segments(store.root / "node-1")[2]
    flip(segment, batches_in(segment)[3][0] + 70)
    store.put(segment)
    done = run("audit", "--local", URI)
    assert done.exit_code == 8, done.output
    assert "FOUND 1  crc" in done.stdout
    assert f"mock:///quorum%20one/node-1/{LOG_DIRECTORY}/{segment.name} " in done.stdout


def test_an_object_that_is_gone_or_shorter_than_it_was_is_named(store):
    log = FileLog(options(URI))
    parts = log.parts(0, log.look().end)
    chosen = path_of(log.look().source).name
    first, second, *_ = segments(store.root / chosen)
    store.system.delete_file(store.key(first))
    with pytest.raises(
        TrimmedError, match=rf"mock:///.*{first.name} at offset 0: the segment no longer exists"
    ):
        list(parts[0].read())
    second.write_bytes(second.read_bytes()[:-100])
    store.put(second)
    part = next(one for one in parts if second.name in one.path)
    with pytest.raises(CorruptError, match=rf"mock:///.*{second.name}"):
        list(part.read())


def test_objects_are_read_by_their_bytes_to_the_end_and_never_written(store):
    """A disk's own rules: fewer bytes at the end, none behind it, no file, no directory."""
    files, path = open_files(), path_of(URI) / "node-0" / "meta.properties"
    content = (store.root / "node-0" / "meta.properties").read_bytes()
    file = files.open_to_read(path)
    assert (file.pread(4, 3), file.stat().size) == (content[3:7], len(content))
    assert file.pread(100, len(content) - 5) == content[-5:]
    assert file.pread(5, len(content) + 9) == b""
    file.close()
    assert files.read_bytes(path) == content
    assert files.read_bytes(path.with_name("nothing")) is None
    assert files.stat(path.with_name("nothing")) is None
    assert files.stat(path.parent).is_directory
    with pytest.raises(RaftnodeError, match=r"open of mock:///.*Read-only"):
        files.open(path)
    assert path.name in open_files().listdir(path.parent)


@pytest.mark.parametrize(
    ("uri", "error", "said"),
    [
        ("s3a://b/x", OptionError, "s3a://b/: Unrecognized .*s3://, gs://"),
        ("s3://b/x?region=a&no_such=b", OptionError, "s3://b/.*no_such"),
        ("s3://me:hidden@b/x", OptionError, "s3://b: .*environment"),
        ("s3://b/x?endpoint_override=http://127.0.0.1:1&region=a", UnreachableError, "s3://b/x.*"),
    ],
)
def test_a_uri_that_cannot_work_is_named(monkeypatch, uri, error, said):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(error, match=said) as found:
        FileLog(options(uri)).look()
    assert "hidden" not in str(found.value)


def test_a_place_that_is_not_there_is_named(store):
    done = run("audit", "--local", "mock:///other")
    assert done.exit_code == 2
    assert "mock:///other is not a directory" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["audit", "--local", URI, "--json=s3://b/x"],
        ["study", URI, "--output=s3://b/x"],
        ["study", URI, "--output=out", "--writes=s3://b/x"],
        ["study", URI, "--output=out", "--events=s3://b/x"],
        ["report", "log", "--output=s3://b/x"],
        ["count", "log", "--writes=s3://b/x"],
        ["history", "--tables=log", "--output=out", "--faults=s3://b/x"],
    ],
)
def test_what_has_to_be_on_this_machine_is_no_directory_called_s3(
    store, tmp_path, monkeypatch, arguments
):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    done = run(*arguments)
    assert done.exit_code == 2
    [line] = done.stderr.splitlines()
    assert line.startswith("kraftquorum-pipeline: s3://b/x: ")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "uri",
    ["s3://b/x%20y/z?a=http://h:1&c=d", "hdfs:///x", "abfs://c@a.dfs.core.windows.net/x%23y"],
)
def test_a_uri_is_a_path_and_back(uri):
    path = path_of(uri)
    text = str(path / "in ner")
    assert text == uri.replace("http://h:1", "http:%2F%2Fh:1").replace("?", "/in%20ner?") or (
        "?" not in uri and text == f"{uri}/in%20ner"
    )
    assert path_of(text) == path / "in ner"
    assert (path / "in ner").parent == path
    assert path_of(text).with_name("other").name == "other"


def test_a_file_uri_is_a_path_of_this_machine():
    assert path_of("file:///srv/a%20b") == Path("/srv/a b")
