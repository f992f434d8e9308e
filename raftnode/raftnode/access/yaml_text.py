"""YAML as an access file may have it; a node imports it only if its file is YAML."""

from __future__ import annotations

from typing import Any

import yaml

from raftnode.access.document import AccessFileError


class _Loader(yaml.SafeLoader):
    """Reads YAML without aliases, whose expansion has no bound, and without doubled fields."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            raise AccessFileError("has a YAML alias; write the value out")
        return super().compose_node(parent, index)  # pyright: ignore[reportUnknownMemberType]

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(set(keys)) < len(keys):
            raise AccessFileError("a field is given twice in one object; give it once")
        return super().construct_mapping(node, deep)


def parse_yaml(text: str) -> object:
    """Parse one document.

    Raises:
        AccessFileError: it is no YAML, or has what an access file may not have.
    """
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise AccessFileError(f"is neither JSON nor YAML{at}") from None
    except (yaml.YAMLError, ValueError, LookupError, ArithmeticError, AttributeError):
        # The last three are PyYAML's for a value that is not of its type, such as `!!bool x`.
        raise AccessFileError("is neither JSON nor YAML") from None
    except RecursionError:
        raise AccessFileError("is nested too deeply") from None
