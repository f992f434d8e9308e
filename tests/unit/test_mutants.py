"""How `make mutants` chooses tests for a mutant, which may survive, and which break whole rules."""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from mutants import patches
from mutants.changed_lines import changed_lines, function_named, touched_lines
from mutants.patches import Change, Patch, PatchError
from mutants.survivors import Survivor, changes, read, why

CORE = Path("raftnode/raftnode/core")
KIP_MAP = Path("docs/evidence/kip-map.toml")
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
        (6, range(7, 23)),  # the signature: each test that runs any part of it
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
    for name, owner in [("method", None), ("free", "Owner"), ("method", "Absent")]:
        with pytest.raises(LookupError):
            function_named(tree, name, owner)


def test_a_survivor_is_known_by_what_it_changes(tmp_path: Path):
    diff = "--- a\n+++ b\n@@ -1,3 +1,3 @@\n same\n-    x = 1\n-    y = 2\n+    x = 2\n+    y = 1"
    found = changes("raftnode.core.snapshots.download.xǁDownloadǁbusy__mutmut_7", diff)
    assert found == Survivor("download.Download.busy", "x = 1\ny = 2", "x = 2\ny = 1")
    assert (
        changes("raftnode.core.replication.leadership.x__park__mutmut_1", diff).function
        == "leadership._park"
    )
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
    [path] = CORE.rglob(f"{module}.py")
    source = path.read_text()
    function = function_named(ast.parse(source), name, owner[0] if owner else None)
    lines = source.splitlines()[function.lineno - 1 : function.end_lineno]
    return {line.strip() for line in lines}


# -- whole rules ---------------------------------------------------------------------------

SEMANTIC = patches.read()


@pytest.mark.parametrize("patch", SEMANTIC, ids=lambda patch: patch.name)
def test_every_semantic_mutant_fits_the_code_as_it_is(patch: Patch):
    """It breaks a function of the core, and only where it says so."""
    made = patches.parts(patch)
    assert {change.place for change in patch.changes} <= {
        f"{part.function.__module__.removeprefix('raftnode.')}:{part.function.__qualname__}"
        for part in made
    }
    for part in made:
        assert part.path.is_relative_to(CORE.absolute())
        assert part.function.__code__ != part.faulty.__code__
        assert part.lines


def test_semantic_mutants_are_known_by_name_and_say_what_they_break():
    rows = tomllib.loads(KIP_MAP.read_text())
    assert len({patch.name for patch in SEMANTIC}) == len(SEMANTIC) >= 60
    assert [patch.name for patch in SEMANTIC if patch.rule not in rows] == []
    assert [patch.name for patch in SEMANTIC if not (patch.source and patch.story[-1] == ".")] == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            Change("core.replication.leadership:resign", "replica.send(peers)", "pass"),
            "0 times, not once",
        ),
        (Change("core.replication.leadership:resign", "voter", "other"), "times, not once"),
        (Change("core.replication.leadership:resign", "", "pass"), "0 times, not once"),
        (
            Change("core.replication.leadership:resign", "tuple(ranked)", "rank"),
            "core.replication.leadership:resign knows no rank",
        ),
        (
            Change("core.replication.leadership:gone", "a", "b"),
            "there is no core.replication.leadership:gone any more",
        ),
        (Change("core.gone:resign", "a", "b"), "there is no core.gone:resign any more"),
        (
            Change(
                "core.replication.leadership:resign",
                "replica.become_resigned()",
                "replica.become_resigned( )",
            ),
            "same",
        ),
    ],
)
def test_patch_that_does_not_fit_any_more_says_so(change: Change, complaint: str):
    with pytest.raises(PatchError, match=re.escape(complaint)) as refused:
        patches.parts(Patch("some-rule", "P1", "unknown", "Nothing.", (change,)))
    assert "some-rule" in str(refused.value)


def test_patch_of_several_functions_and_texts_breaks_all_of_them():
    twice = (
        Change("core.replica:Replica.may_stand", "self.stopping or", "False or"),
        Change("core.elections.election:_count", "granted >= voters.majority", "True"),
        Change("core.replica:Replica.may_stand", "return self.may_be_voter(self.key)", "return 7"),
    )
    made = patches.parts(Patch("some-rules", "P1", "unknown", "Nothing.", twice))
    assert [(part.owner, part.function.__name__) for part in made] == [
        (None, "_count"),
        ("Replica", "may_stand"),
    ]
    assert 7 in made[1].faulty.__code__.co_consts
    lines = Path(made[1].path).read_text().splitlines()
    text = "\n".join(lines[line - 1] for line in sorted(made[1].lines))
    assert "self.stopping or" in text
    assert "return self.may_be_voter(self.key)" in text
