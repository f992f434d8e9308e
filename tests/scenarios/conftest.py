"""`pytest tests/scenarios --rewrite-scenarios` writes down what golden scripts do now."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-scenarios",
        action="store_true",
        help="replace the results in tests/scenarios/testdata by what really happens",
    )
