"""What a node asks of its process."""

import json

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
