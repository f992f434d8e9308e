"""A pytest plugin: tests that carry what they need to pass, and are run without it as well.

`@pytest.mark.without(place, old, new)` on a test says: it fails while `old` stands as `new` in
the function at `place` (`core.replication.leadership:resign`, below `raftnode`). So the test runs
twice, as the code is and with that taken out, and the second time it must fail by itself: by an
assertion that stands in a test's file, by what is expected there to be raised and is not, or by
`pytest.fail`.
What fails elsewhere does not count: a table that cannot be set any more says nothing about the
rule, and an `assert` of the code itself is taken out together with what it stands behind. More
triples are taken out together with the first; another mark is a run of its own.

`@pytest.mark.scenario(name)` says which scenario of docs/evidence/scenarios.toml a test is.
"""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import pytest

from proofkit.mutation import function_at, taken_out

Cut = tuple[str, ...]
"""Triples of place, old and new, one after the other."""

PYTEST = Path(inspect.getfile(pytest.raises)).parent
"""Where `pytest.raises` and `pytest.fail` are, which are a test's own words."""


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
        # With CI in the environment pytest makes the whole diff of what is not equal, which takes
        # minutes for long bytes, once for each example that Hypothesis tries.
        environment = {name: value for name, value in os.environ.items() if name != "CI"}
        stack.enter_context(mock.patch.dict(os.environ, environment, clear=True))
        for place, (first, *also) in _by_place(cut).items():
            stack.enter_context(taken_out(function_at(place), *first, *also))
        try:
            yield
        except (AssertionError, pytest.fail.Exception) as missed:
            where = _raised_in(missed)
            if not where.name.startswith("test_"):
                pytest.fail(f"{where} fails, and no test, without {cut}: {missed!r}")
            print(f"missed: {missed}")
            return True
    pytest.fail(f"no test misses {cut}")


def _by_place(cut: Cut) -> dict[str, list[tuple[str, str]]]:
    """The pairs of old and new of each function: all of them make one new function."""
    pairs: dict[str, list[tuple[str, str]]] = {}
    for place, old, new in zip(cut[::3], cut[1::3], cut[2::3], strict=True):
        pairs.setdefault(place, []).append((old, new))
    return pairs


def _raised_in(error: BaseException) -> Path:
    """The innermost file of an error's traceback, pytest's own left out."""
    frames = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    return next(file for file in reversed(frames) if file.parent != PYTEST)
