"""Everything here needs a real Prometheus; without one it is left out, saying why."""

from __future__ import annotations

import pytest

from monitoringlib.programs import why_not


@pytest.fixture(scope="session", autouse=True)
def _prometheus() -> None:
    why = why_not()
    if why is not None:
        pytest.skip(why)
