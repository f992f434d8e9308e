"""What one operator costs an API server, by the API server's own audit log."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftquorum_bench.operatorscale.cases import Case, Times
from kraftquorum_bench.operatorscale.measure import Measurement

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(1800)]

TIMES = Times(settle_s=20, rest_s=45, single_losses=1, losses_at_once=2)
MAY_BE_DUE = {"list", "watch"}
"""Of all quorums together: a watch ends after four minutes, and a list is read again after ten."""


async def test_the_operator_asks_the_api_server_for_nothing_at_rest(tmp_path: Path) -> None:
    """It was 60 requests per quorum and minute: what watches deliver was read again each time."""
    result = await Measurement(Case(3, 2), TIMES, tmp_path / "case", print).run()
    asked = {
        f"{share.verb} {share.resource}": share.per_quorum_minute
        for share in result.rest.by_verb_and_resource
        if share.verb not in MAY_BE_DUE and share.resource != "leases"
    }
    # One of the quorums may be due for its read every half hour, or for its status.
    assert sum(asked.values()) <= 12 / 3 / (TIMES.rest_s / 60), asked
    assert result.rest.status_writes_per_quorum_minute <= 1
    leases = [s.verb for s in result.rest.by_verb_and_resource if s.resource == "leases"]
    assert leases == ["update"], "a renewal reads nothing"
    assert result.false_alarms == 0, result.false_alarm_example
    assert result.single_loss is not None
    assert result.losses_at_once == 2
