"""How `make mutants` chooses tests for a mutant, and the mutants that may survive."""

from __future__ import annotations

import ast
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from mutants.survivors import Survivor, changes, read, why
from mutants.touched import changed_lines, function_named, touched_lines

CORE = Path("raftnode/raftnode/core")
SOURCE = textwrap.dedent(
    """\
    def free(a):
        return a


    class Owner:
        def method(self, a, *, b=1):
            "What it does."
            if a and (
                b
            ):
                a += 1
            else:
                a -= 1
            match a:
                case 1:
                    return 2
                case _:
                    pass
            return [
                one
                for one in range(a)
            ]
    """
)


def lines_touched(line: int) -> set[int]:
    function = function_named(ast.parse(SOURCE), "method", "Owner")
    return touched_lines(function, {line})


@pytest.mark.parametrize(
    ("changed", "touched"),
    [
        (6, range(7, 23)),  # the signature: whoever runs anything of it
        (9, range(8, 11)),  # the head of an if, and not what hangs on it
        (11, [11]),
        (13, [13]),
        (12, range(7, 23)),  # an else has no line of its own: as if all were changed
        (16, [16]),
        (15, range(14, 19)),  # a case: any of the match
        (20, range(19, 23)),
    ],
)
def test_a_change_touches_the_whole_statement_that_it_is_in(changed: int, touched: list[int]):
    assert lines_touched(changed) == set(touched)


def test_changed_lines_are_those_that_are_not_there_any_more():
    before = ["a", "b", "c", "d"]
    assert changed_lines(before, ["a", "x", "c", "d"]) == {1}
    assert changed_lines(before, ["a", "d"]) == {1, 2}
    assert changed_lines(before, ["a", "b", "x", "c", "d"]) == {1, 2}
    assert changed_lines(before, [*before, "x"]) == {3}
    assert changed_lines(before, before) == set()


def test_functions_are_found_by_name_and_class():
    tree = ast.parse(SOURCE)
    assert function_named(tree, "free", None).lineno == 1
    assert function_named(tree, "method", "Owner").lineno == 6
    for name, owner in [("method", None), ("free", "Owner"), ("method", "Nobody")]:
        with pytest.raises(LookupError):
            function_named(tree, name, owner)


def test_a_survivor_is_known_by_what_it_changes(tmp_path: Path):
    diff = "--- a\n+++ b\n@@ -1,3 +1,3 @@\n same\n-    x = 1\n-    y = 2\n+    x = 2\n+    y = 1"
    found = changes("raftnode.core.download.xǁDownloadǁbusy__mutmut_7", diff)
    assert found == Survivor("download.Download.busy", "x = 1\ny = 2", "x = 2\ny = 1")
    assert changes("raftnode.core.leading.x__park__mutmut_1", diff).function == "leading._park"
    path = tmp_path / "survivors.toml"
    path.write_text(
        "[[reasons]]\ntitle = 'Alike'\nwhy = 'as good'\n[[reasons.mutants]]\n"
        "function = 'download.Download.busy'\n"
        'was = "x = 1\\ny = 2"\nnow = "x = 2\\ny = 1"\n'
    )
    known = read(path)
    assert why(known, found) == "as good"
    assert why(known, replace(found, now="x = 2")) is None
    assert why(known, replace(found, function="download.busy")) is None


def test_every_explained_survivor_is_of_a_function_as_it_is():
    """What was said of lines that are not there any more explains nothing."""
    for survivor in [one for reason in read() for one in reason.mutants]:
        assert set(survivor.was.splitlines()) <= lines_of(survivor), survivor


def lines_of(survivor: Survivor) -> set[str]:
    module, *owner, name = survivor.function.split(".")
    source = (CORE / f"{module}.py").read_text()
    function = function_named(ast.parse(source), name, owner[0] if owner else None)
    lines = source.splitlines()[function.lineno - 1 : function.end_lineno]
    return {line.strip() for line in lines}
