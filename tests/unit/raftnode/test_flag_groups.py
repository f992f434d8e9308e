"""Groups of flags: Typer reads each field as a flag, and the command receives whole groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from raftnode.flag_groups import with_flag_groups


@dataclass(frozen=True, slots=True)
class Inner:
    """A group in a group."""

    size: Annotated[int, typer.Option("--size", min=1)] = 3


@dataclass(frozen=True, slots=True)
class Outer:
    """A group that has one."""

    name: Annotated[str, typer.Option("--name")]
    inner: Inner = Inner()


@dataclass(frozen=True, slots=True)
class Other(Outer):
    """The same with another spelling of one flag."""

    name: Annotated[str, typer.Option("--name", "--called")] = "unnamed"


def invoke(group: type[Outer], *arguments: str) -> tuple[int, list[object]]:
    received: list[object] = []

    def command(word: str, *, outer: Outer, loud: bool = False) -> None:
        received.extend((word, outer, loud))

    command.__annotations__ = {"word": str, "outer": group, "loud": bool, "return": None}
    app = typer.Typer()
    app.command()(with_flag_groups(command))
    return CliRunner().invoke(app, list(arguments)).exit_code, received


def test_a_group_in_a_group_is_flags_too():
    assert invoke(Outer, "w", "--name", "n", "--size", "7", "--loud") == (
        0,
        ["w", Outer("n", Inner(7)), True],
    )


def test_a_field_without_a_default_is_a_flag_that_must_be_given():
    assert invoke(Outer, "w") == (2, [])
    assert invoke(Outer, "w", "--name", "n") == (0, ["w", Outer("n"), False])


def test_a_group_may_spell_a_flag_of_another_in_its_own_way():
    assert invoke(Other, "w", "--called", "n") == (0, ["w", Other("n"), False])
    assert invoke(Other, "w") == (0, ["w", Other("unnamed"), False])


def test_limits_of_flags_hold():
    assert invoke(Outer, "w", "--name", "n", "--size", "0")[0] == 2
