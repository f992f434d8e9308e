"""A log line of an error has its traceback, and no value of a variable."""

from __future__ import annotations

import subprocess
import sys

import pytest

FAILS = """
import logging, sys, structlog
from kraftquorum_operator.logs import configure_logging

configure_logging(sys.argv[1], "info")

def handle(request):
    token = request
    raise ValueError("cannot be handled")

for log in (structlog.get_logger("kraftquorum_operator"), logging.getLogger("library")):
    try:
        handle("".join(("sec", "ret")))
    except ValueError:
        log.exception("request_failed")
"""


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_no_value_of_a_variable_is_in_a_traceback(log_format: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAILS, log_format], capture_output=True, text=True, check=True
    )
    assert done.stderr.count("request_failed") == 2
    assert done.stderr.count("cannot be handled") >= 2
    assert "secret" not in done.stderr
