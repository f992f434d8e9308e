"""The commands of the page on a lost majority, run as a reader runs them, on real nodes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guidelib.reader import ClusterReader

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.extended,
    pytest.mark.nightly,
    pytest.mark.timeout(900),
]


def test_a_lost_quorum_is_exported_and_loaded_as_the_page_says(
    krq, operators, tmp_path: Path
) -> None:
    operators.start()
    krq.apply(voters=3, tls=None)
    krq.ready(3)
    reader = ClusterReader("operations/quorum-loss.md", tmp_path, krq.cluster, krq.namespace)
    keys = {"colour", "shop/a key"}
    for key in keys:
        code, printed = reader.type(f"kubectl exec demo-0 -- raftnode kv put '{key}' 'a value'")
        assert code == 0, printed
    listing = "kubectl exec demo-0 -- raftnode kv list --consistency local"
    krq.until(
        "committed, as node 0 knows", lambda: reader.type(listing)[1].count("\n") == len(keys)
    )
    for ordinal in (1, 2):
        krq.wipe(ordinal)
    reader.until_shows("look")
    reader.run("offsets")
    reader.run("keep")
    reader.run("export")
    exported = (tmp_path / "demo-0.kv.jsonl").read_text().splitlines()
    assert {json.loads(line)["key"] for line in exported} == keys
    # The operator of a paused quorum changes nothing of it, and forms another one.
    reader.save("resource", "demo-b.yaml")
    reader.run("new")
    reader.run("load")
