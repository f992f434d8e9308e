from pathlib import Path

import pytest

from kraftquorum_devcluster.processnode.mounts import Mount, PathRewriter

REWRITER = PathRewriter(
    [
        Mount("/data", Path("/host/v1")),
        Mount("/data/meta/", Path("/host/v2")),
        Mount("/etc/raft", Path("/host/v3")),
    ]
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data", "/host/v1"),
        ("/data/", "/host/v1/"),
        ("/data/log/0.log", "/host/v1/log/0.log"),
        ("/data/meta/x", "/host/v2/x"),
        ("--dir=/data", "--dir=/host/v1"),
        ("/data:/etc/raft", "/host/v1:/host/v3"),
        ("/data,/etc/raft/a.toml", "/host/v1,/host/v3/a.toml"),
        ("cat /data/x > '/data/y'; ls /data;", "cat /host/v1/x > '/host/v1/y'; ls /host/v1;"),
        ("file:///data/x", "file:///data/x"),
        ("/database", "/database"),
        ("/my/data", "/my/data"),
        ("http://host/data", "http://host/data"),
        ("./data", "./data"),
        ("data", "data"),
    ],
)
def test_mount_paths_are_replaced_where_they_begin_a_word(text, expected):
    assert REWRITER.rewrite(text) == expected


def test_nothing_mounted_changes_nothing():
    assert PathRewriter([]).rewrite("/data") == "/data"
