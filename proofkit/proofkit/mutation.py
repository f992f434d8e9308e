"""Removes a rule from a function for a while, so that a test of the rule must fail."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import reduce
from importlib import import_module
from types import FunctionType
from typing import Any


@contextmanager
def taken_out(
    function: Callable[..., Any], old: str, new: str, *also: tuple[str, str]
) -> Generator[None]:
    """Replace pieces of a function's text in the block, for all of its callers.

    Args:
        function: the function.
        old: the text that must be in it.
        new: the text instead.
        also: further pairs, replaced after the first.

    Raises:
        ValueError: the function does not say `old`, so nothing would be taken out.
    """
    assert isinstance(function, FunctionType)
    source = _undecorated(textwrap.dedent(inspect.getsource(function)))
    for piece, instead in ((old, new), *also):
        if piece not in source:
            raise ValueError(f"{function.__qualname__} does not say {piece!r}")
        source = source.replace(piece, instead)
    names: dict[str, Any] = {}
    text = f"from __future__ import annotations\n{source}"
    exec(compile(text, function.__qualname__, "exec"), function.__globals__, names)  # noqa: S102
    before, function.__code__ = function.__code__, names[function.__name__].__code__
    try:
        yield
    finally:
        function.__code__ = before


def function_at(place: str) -> Callable[..., Any]:
    """The function at a place such as `core.replication.leadership:resign`.

    Of a property it is the getter, of a decorated function the one that the decorator was given.

    Args:
        place: a module below `raftnode`, and what it has by that name: `core.replica:Replica.halt`;
            a module of another package of ours with its whole name.

    Raises:
        ImportError: there is no such module.
        AttributeError: the module has nothing of that name.
    """
    module, _, name = place.partition(":")
    whole = module if module.startswith(("kraftquorum_", "proofkit.")) else f"raftnode.{module}"
    target: Any = reduce(getattr, name.split("."), import_module(whole))
    if isinstance(target, property):
        assert target.fget is not None
        return target.fget
    return inspect.unwrap(getattr(target, "__func__", target))


def _undecorated(source: str) -> str:
    """A function's text without its decorators: they ran once, and may have registered it."""
    [function] = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    return "".join(source.splitlines(keepends=True)[function.lineno - 1 :])
