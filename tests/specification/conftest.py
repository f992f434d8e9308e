"""The specification's tests run TLC: `make spec` installs it."""

import pytest

from proofkit.localquorum import LocalQuorum


@pytest.fixture
async def traced(request, tmp_path, network):
    """Up to four real nodes that write down what their cores do."""
    cache = str(request.config.rootpath / ".hypothesis")
    settings = {"HYPOTHESIS_STORAGE_DIRECTORY": cache}
    async with LocalQuorum(tmp_path, 4, network, settings) as made:
        for node in made.nodes:
            node.make_traced()
        yield made
