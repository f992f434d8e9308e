"""The example of docs/howto/client.md, run on a quorum of real processes."""

import re
from typing import Any

from guidelib.pages import Page


async def test_the_example_of_the_guide_writes_reads_and_follows(quorum, capsys):
    await quorum.form(3)
    names: dict[str, Any] = {}
    exec(Page("howto/client.md").examples["program"], names)
    await names["main"]([node.api for node in quorum.nodes[:3]])
    said = capsys.readouterr().out.splitlines()
    offset = re.fullmatch(r"committed at offset (\d+)", said[0])[1]
    assert said[1] == f"b'blue' written at offset {offset}"
    assert said[2] == f"{offset} b'colour' b'blue'"
