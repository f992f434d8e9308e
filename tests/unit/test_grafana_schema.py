"""The dashboards have only what the oldest Grafana knows that they are for.

The SDK in the dev extra is the build for that Grafana. Its own models read each dashboard and write
it again: a field that they do not know is lost on the way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from kraftquorum_observability.generate import BOARDS, ROOT

OF_PROMETHEUS = {"step", "titleFormat", "textFormat"}
"""Fields of Prometheus' annotations: each data source has its own, which no model lists."""

PATHS = sorted((ROOT / BOARDS).glob("*.json"))


def lost(before: Any, after: Any, at: str = "") -> Iterator[str]:
    """The places of what is in `before` and not, or otherwise, in `after`."""
    match before, after:
        case dict(), dict():
            for name, value in before.items():
                if name in after:
                    yield from lost(value, after[name], f"{at}.{name}")
                else:
                    yield f"{at}.{name}"
        case list(), list() if len(before) == len(after):
            for place, (value, other) in enumerate(zip(before, after, strict=True)):
                yield from lost(value, other, f"{at}[{place}]")
        case _:
            if before != after:
                yield at


def read_and_written(board: dict[str, Any]) -> dict[str, Any]:
    register_default_plugins()
    return json.loads(json.dumps(Dashboard.from_json(board), cls=JSONEncoder))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_oldest_grafana_knows_every_field(path: Path) -> None:
    board = json.loads(path.read_text())
    unknown = set(lost(board, read_and_written(board)))
    annotations = {
        f".annotations.list[{place}].{name}"
        for place in range(len(board["annotations"].get("list", ())))
        for name in OF_PROMETHEUS
    }
    assert unknown == annotations


def test_a_field_that_it_does_not_know_is_lost() -> None:
    board = json.loads(PATHS[0].read_text())
    board["links"][0]["placement"] = "inControlsMenu"  # a later Grafana's
    panel = next(one for one in board["panels"] if one["type"] == "timeseries")
    panel["fieldConfig"]["defaults"]["custom"]["sparkle"] = True
    places = sorted(lost(board, read_and_written(board)))
    assert [place.rpartition(".")[2] for place in places] == ["placement", "sparkle"]


def test_the_guide_names_the_grafana_that_the_schema_is_of() -> None:
    grafana = re.fullmatch(r"\d+!(\d+)\.0\.0", version("grafana-foundation-sdk"))
    assert grafana is not None
    guide = (ROOT / "docs" / "operations" / "monitoring.md").read_text()
    assert f"Grafana {grafana[1]} or later" in guide
    for path in PATHS:
        assert json.loads(path.read_text())["schemaVersion"] == 36, "what that SDK writes"
