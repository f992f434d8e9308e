"""Units need no cluster and take no minute: the tiers that do leave this folder unread."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test that `make test` or `make extended` would look for elsewhere."""
    for item in items:
        needs_more = item.get_closest_marker("cluster") or item.get_closest_marker("extended")
        if needs_more and HERE in item.path.parents and not item.get_closest_marker("nightly"):
            raise pytest.UsageError(
                f"{item.nodeid} is marked {needs_more.name}: such tests stand outside of tests/unit"
            )
