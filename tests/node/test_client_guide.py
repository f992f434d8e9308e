"""The example of docs/howto/client.md, run on a quorum of real processes."""

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "client.md"


async def test_the_example_of_the_guide_writes_reads_and_follows(quorum, capsys):
    await quorum.form(3)
    [example] = re.findall(r"<!-- example -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    await names["main"]([node.api for node in quorum.nodes[:3]])
    said = capsys.readouterr().out.splitlines()
    offset = re.fullmatch(r"committed at offset (\d+)", said[0])[1]
    assert said[1] == f"b'blue' written at offset {offset}"
    assert said[2] == f"{offset} b'colour' b'blue'"
