"""Fixtures for all tests."""

pytest_plugins = ["kraftquorum_devcluster.pytest_plugin"]
