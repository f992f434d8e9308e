"""Quorums of real processes: each test has addresses of its own (`network`)."""

import pytest

from proofkit.localquorum import LocalQuorum
from proofkit.quorumsecurity import QuorumSecurity


@pytest.fixture
def security() -> QuorumSecurity | None:
    """What the nodes of `quorum` present; None: plain connections. A module may have its own."""


@pytest.fixture
async def quorum(request, tmp_path, network, security):
    """Up to five nodes; the marker `quorum_settings(**settings)` sets more of the environment."""
    marker = request.node.get_closest_marker("quorum_settings")
    # kio imports hypothesis where it is installed, which then computes a table for a second
    # of each process's start unless it finds one.
    cache = str(request.config.rootpath / ".hypothesis")
    settings = {"HYPOTHESIS_STORAGE_DIRECTORY": cache} | (marker.kwargs if marker else {})
    async with LocalQuorum(tmp_path, 5, network, settings, security=security) as made:
        yield made
