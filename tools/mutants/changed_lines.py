"""Which lines of a module run differently in a mutant: no test that leaves them out can notice it.

A mutant is tried with the tests that ran one of the statements in which it differs. That is
as good as all tests and a fraction of their time: half of the core's tests call `handle_fetch`,
and few come to each of its branches.
"""

from __future__ import annotations

import ast
from difflib import SequenceMatcher


def function_named(tree: ast.Module, name: str, owner: str | None) -> ast.FunctionDef:
    """Find a function of a module, or a method of a class of it.

    Raises LookupError if there is none.
    """
    body = tree.body
    if owner is not None:
        classes = [node for node in body if isinstance(node, ast.ClassDef)]
        body = [inner for node in classes if node.name == owner for inner in node.body]
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise LookupError(f"no function {owner or ''}.{name}")


def changed_lines(before: list[str], after: list[str]) -> set[int]:
    """Return the lines of `before`, counted from 0, that `after` does not have as they are.

    Where it has more lines, the ones beside them count.
    """
    lines: set[int] = set()
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, start, end, _, _ in matcher.get_opcodes():
        if kind == "insert":
            lines |= {max(start - 1, 0), min(start, len(before) - 1)}
        elif kind != "equal":
            lines |= set(range(start, end))
    return lines


def touched_lines(function: ast.FunctionDef, changed: set[int]) -> set[int]:
    """Return all lines of the statements that changed lines of a function belong to.

    A line of a compound statement's head stands for the whole head, one of a `match` for the
    whole match, one of the signature for the whole function. All are lines of the file.
    """
    body = range(function.body[0].lineno, (function.end_lineno or function.lineno) + 1)
    if any(line < body.start for line in changed):
        return set(body)
    ranges = [_own_lines(node) for node in ast.walk(function) if isinstance(node, ast.stmt)]
    touched: set[int] = set()
    for line in changed:
        around = [lines for lines in ranges if line in lines]
        touched |= set(min(around, key=len)) if around else set(body)
    return touched


def _own_lines(statement: ast.stmt) -> range:
    end = (statement.end_lineno or statement.lineno) + 1
    inner: list[ast.stmt] = getattr(statement, "body", [])
    if inner:
        end = max(inner[0].lineno, statement.lineno + 1)
    return range(statement.lineno, end)
