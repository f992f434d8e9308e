"""The manifests that lie beside the chart: valid by the API server's own schemas."""

from __future__ import annotations

import pytest
import yaml

from kraftquorum_devcluster import chart
from kraftquorum_devcluster.errors import CommandError

pytestmark = pytest.mark.chart

EXTRAS = chart.CHART / "extras" / "spark"
OWN_API = {"sparkapplication.yaml"}
"""Of an API that Kubernetes does not have; checked by its own models in the unit tests."""


def test_every_manifest_passes_strict_schemas() -> None:
    files = [path for path in EXTRAS.glob("*.yaml") if path.name not in OWN_API]
    assert len(files) == 4
    objects = [one for path in files for one in yaml.safe_load_all(path.read_text())]
    chart.conform(objects)
    objects[-1]["spec"]["wrong"] = 1
    with pytest.raises(CommandError, match="wrong"):
        chart.conform(objects)


def test_the_chart_installs_none_of_them() -> None:
    assert not any("pipeline" in one["metadata"]["name"] for one in chart.render())
