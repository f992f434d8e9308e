"""What a node asks of its process."""

import json
import subprocess
import sys

import pytest

from raftnode.errors import ExitCode
from raftnode.runtime.process.process_setup import (
    descriptors_for_clients,
    write_termination_message,
)


@pytest.mark.parametrize(("limit", "clients"), [(16_384, 15_872), (1024, 512), (64, 32)])
def test_some_descriptors_are_kept_from_clients(limit, clients):
    assert descriptors_for_clients(limit) == clients


def test_last_words_name_the_reason(tmp_path):
    path = tmp_path / "termination-log"
    write_termination_message(path, ExitCode.STORAGE_LOST, "gone")
    assert json.loads(path.read_text()) == {"reason": "STORAGE_LOST", "message": "gone"}


def test_last_words_that_no_reader_wants_are_not_an_error(tmp_path):
    write_termination_message(None, ExitCode.OK, "")
    write_termination_message(tmp_path / "no" / "such", ExitCode.OK, "")


DESCRIPTOR_OF_A_FILE = """
import os, sys
from raftnode.runtime.process import process_setup
if sys.argv[1:]:
    process_setup.open_standard_files()
print(os.open(os.devnull, os.O_RDONLY))
"""


@pytest.mark.parametrize("closed", ["2>&-", "<&-", "2>&- <&-"])
def test_no_file_gets_the_number_of_a_standard_stream_that_was_closed(closed):
    """What is written to stderr would go into that file."""

    def run(*arguments: str) -> int:
        command = f'"$0" "$@" {closed}'
        program = [sys.executable, "-c", DESCRIPTOR_OF_A_FILE, *arguments]
        done = subprocess.run(["sh", "-c", command, *program], stdout=subprocess.PIPE, check=True)
        return int(done.stdout)

    assert run() in {0, 2}, "so it is without the call"
    assert run("call") > 2
