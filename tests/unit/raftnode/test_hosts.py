"""A hosts file is read as the C library reads it, and followed as it changes."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from raftnode.hosts import HostsFile, parse_hosts


def test_lines_are_read_as_the_c_library_does() -> None:
    names = parse_hosts(
        "127.0.0.1 localhost # me\n\n# all comment\n10.0.0.1\tkq-0.kq kq-0\n"
        "10.0.0.2 KQ-0.\nnot-an-address kq-1\n::1 localhost\n10.0.0.1 kq-0\n127.0.0.9"
    )
    assert names == {
        "localhost": ("127.0.0.1", "::1"),
        "kq-0.kq": ("10.0.0.1",),
        "kq-0": ("10.0.0.1", "10.0.0.2"),
    }


def test_changes_of_the_file_are_followed(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    hosts = HostsFile(path)
    assert hosts.lookup("kq-0") == ()
    path.write_text("127.0.0.2 kq-0\n")
    assert hosts.lookup("KQ-0.") == ("127.0.0.2",)
    replacement = tmp_path / "new"
    replacement.write_text("127.0.0.3 kq-0\n")
    replacement.rename(path)
    assert hosts.lookup("kq-0") == ("127.0.0.3",)
    path.unlink()
    assert hosts.lookup("kq-0") == ()
    path.write_bytes(b"\xff\xfe\x00 garbage\n127.0.0.4 kq-0\n")
    assert hosts.lookup("kq-0") == ("127.0.0.4",)


def test_a_change_that_keeps_the_size_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("127.0.0.2 kq-0\n")
    hosts = HostsFile(path)
    assert hosts.lookup("kq-0") == ("127.0.0.2",)
    path.write_text("127.0.0.3 kq-0\n")
    os.utime(path, ns=(1, 1))
    assert hosts.lookup("kq-0") == ("127.0.0.3",)


def test_only_addresses_of_the_asked_family_are_given(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("127.0.0.2 kq-0\n::1 kq-0\n")
    hosts = HostsFile(path)

    def found(family: socket.AddressFamily) -> list[tuple[str, int, int]]:
        return [
            (result["host"], result["port"], result["family"])
            for result in hosts.resolve("kq-0", 80, family)
        ]

    v4, v6 = ("127.0.0.2", 80, socket.AF_INET), ("::1", 80, socket.AF_INET6)
    assert found(socket.AF_INET) == [v4]
    assert found(socket.AF_INET6) == [v6]
    assert found(socket.AF_UNSPEC) == [v4, v6]
    assert hosts.resolve("kq-9", 80, socket.AF_UNSPEC) == []
