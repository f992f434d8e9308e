"""Rules are taken out of the code, and golden scripts are written down anew.

`@pytest.mark.without(place, old, new)` on a test says: it fails while `old` stands as `new` in
the function at `place` (`core.leading:resign`). So the test runs twice, as the code is and with
that taken out, and the second time it must fail. More triples are taken out together with the
first; another mark is a run of its own. `@pytest.mark.scenario(name)` says which scenario of
docs/reference/scenarios.toml a test is.

`pytest tests/scenarios --rewrite-scenarios` writes down what golden scripts do now.
"""

from collections.abc import Generator
from contextlib import ExitStack

import pytest

from raftnode.testing.mutation import function_at, taken_out

Cut = tuple[str, ...]
"""Triples of place, old and new, one after the other."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-scenarios",
        action="store_true",
        help="replace the results in tests/scenarios/testdata by what really happens",
    )


@pytest.fixture(autouse=True)
def without() -> Cut:
    """What is taken out of the code while the test runs; nothing, unless it is marked so."""
    return ()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    cuts: list[Cut] = [mark.args for mark in metafunc.definition.iter_markers("without")]
    if cuts:
        names = [f"without-{cut[0].partition(':')[2]}" for cut in cuts]
        metafunc.parametrize(
            "without",
            [
                pytest.param((), id=pytest.HIDDEN_PARAM),
                *(
                    pytest.param(cut, id=name, marks=pytest.mark.taken_out)
                    for cut, name in zip(cuts, names, strict=True)
                ),
            ],
        )


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    cut: Cut = pyfuncitem.funcargs.get("without", ())
    if not cut:
        return (yield)
    with ExitStack() as stack:
        for at in range(0, len(cut), 3):
            place, old, new = cut[at : at + 3]
            stack.enter_context(taken_out(function_at(place), old, new))
        try:
            yield
        except (AssertionError, pytest.fail.Exception) as missed:
            print(f"missed: {missed}")  # noqa: T201
            return True
    pytest.fail(f"nobody misses {cut}")
