"""A pytest plugin: tests that carry what they need to pass, and are run without it as well.

`@pytest.mark.without(place, old, new)` on a test says: it fails while `old` stands as `new` in
the function at `place` (`core.leading:resign`, below `raftnode`). So the test runs twice, as the
code is and with that taken out, and the second time it must fail: by an assertion, or by what it
expects to be raised and is not. More triples are taken out together with the first; another mark
is a run of its own.

`@pytest.mark.scenario(name)` says which scenario of docs/reference/scenarios.toml a test is.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack

import pytest

from raftnode.testing.mutation import function_at, taken_out

Cut = tuple[str, ...]
"""Triples of place, old and new, one after the other."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a run of each mark, beside the one as the code is."""
    cuts: list[Cut] = [mark.args for mark in metafunc.definition.iter_markers("without")]
    if not cuts:
        return
    metafunc.fixturenames.append("without")
    runs = [pytest.param((), id=pytest.HIDDEN_PARAM)]
    for cut in cuts:
        name = f"without-{cut[0].partition(':')[2]}"
        runs.append(pytest.param(cut, id=name, marks=pytest.mark.taken_out))
    metafunc.parametrize("without", runs)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Run a test with something taken out, and fail unless it does."""
    parameters = pyfuncitem.callspec.params if hasattr(pyfuncitem, "callspec") else {}
    cut: Cut = parameters.get("without", ())
    if not cut:
        return (yield)
    with ExitStack() as stack:
        for at in range(0, len(cut), 3):
            place, old, new = cut[at : at + 3]
            stack.enter_context(taken_out(function_at(place), old, new))
        try:
            yield
        except (AssertionError, pytest.fail.Exception) as missed:
            print(f"missed: {missed}")
            return True
    pytest.fail(f"nobody misses {cut}")
