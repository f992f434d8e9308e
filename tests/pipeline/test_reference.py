"""The reference page is that of the code, and the how-to names what there is."""

from __future__ import annotations

import re
from pathlib import Path

from kraftquorum_pipeline.cli import COMMANDS
from kraftquorum_pipeline.reference import PAGE, page
from kraftquorum_pipeline.schema import COLUMNS, log_schema
from kraftquorum_pipeline.source.options import OPTIONS
from raftnode.runtime.committed_reads import READ_BYTES_MAX

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_reference_of_the_data_source_is_current():
    assert (DOCS / "reference" / PAGE).read_text() == page(), "make reference"


def test_each_column_is_told():
    assert list(COLUMNS) == log_schema().names


def test_the_howto_uses_only_what_there_is():
    text = (DOCS / "howto" / "spark.md").read_text()
    assert set(re.findall(r"kraftquorum-pipeline ([a-z-]+)", text)) <= set(COMMANDS)
    used = re.findall(r"-o (\w+)=", text) + re.findall(r'\.option\("(\w+)"', text)
    assert used
    assert set(used) <= {*OPTIONS, "checkpointLocation"}


def test_no_more_is_asked_for_in_one_answer_than_a_node_gives():
    option = OPTIONS["maxBytesPerRequest"]
    assert int(option.default or 0) == READ_BYTES_MAX
    assert f"at most {READ_BYTES_MAX >> 20} MiB" in option.meaning
