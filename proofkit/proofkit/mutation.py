"""Removes a rule from a function for a while, so that a test of the rule must fail."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import reduce
from importlib import import_module
from pathlib import Path
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
    is_lambda = function.__name__ == "<lambda>"
    source = _lambda(function) if is_lambda else _undecorated(function)
    for piece, instead in ((old, new), *also):
        if piece not in source:
            raise ValueError(f"{function.__qualname__} does not say {piece!r}")
        source = source.replace(piece, instead)
    names: dict[str, Any] = {}
    text = f"from __future__ import annotations\n{'made = ' if is_lambda else ''}{source}"
    exec(compile(text, function.__qualname__, "exec"), function.__globals__, names)  # noqa: S102
    made: FunctionType = names["made" if is_lambda else function.__name__]
    before, function.__code__ = function.__code__, made.__code__
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


def _undecorated(function: FunctionType) -> str:
    """A function's text without its decorators: they ran once, and may have registered it."""
    source = textwrap.dedent(inspect.getsource(function))
    [parsed] = ast.parse(source).body
    assert isinstance(parsed, ast.FunctionDef | ast.AsyncFunctionDef)
    return "".join(source.splitlines(keepends=True)[parsed.lineno - 1 :])


def _lambda(function: FunctionType) -> str:
    """The text of a lambda, which must be the only one that begins in its line."""
    source = Path(inspect.getfile(function)).read_text(encoding="utf-8")
    [text] = [
        ast.get_source_segment(source, node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Lambda) and node.lineno == function.__code__.co_firstlineno
    ]
    assert text is not None
    return f"({text})"
