"""The runbooks: one for each alert, and every name, flag, link and field in them exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer.main

from kraftquorum_observability.alerts import ALERTS, kebab
from kraftquorum_operator.cli import app as operator_app
from kraftquorum_operator.http.page import kafka_verdict
from kraftquorum_operator.http.page.verdict import DISK_FULL, LEVELS, PAUSED, RUNBOOKS
from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.model.crd import KINDS, crd
from kraftquorum_operator.plan.guards import GUARDS
from kraftquorum_operator.report.conditions import CONDITIONS
from kraftquorum_operator.report.operations import STEPS
from raftnode.api.errors import ERRORS
from raftnode.cli import make_app
from raftnode.limits.model import Limit
from raftnode.settings import NodeSettings

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "operations" / "runbooks"
PAGES = {path.stem: path for path in sorted(FOLDER.glob("*.md")) if path.stem != "README"}
EVERY = {**PAGES, "README": FOLDER / "README.md"}
BY_NAME = {kebab(alert.name): alert for alert in ALERTS}
SECTIONS = [
    "Is data in danger?",
    "What the operator does by itself",
    "First look",
    "What to do",
    "When to wait",
    "Never",
    "It is over when",
    "See also",
]
PROGRAMS = {"raftnode": make_app(), "kraftquorum-operator": operator_app}
DOCUMENTED = (ROOT / "docs" / "reference" / "node-metrics.md").read_text()
EVENTS = set(
    re.findall(
        r"^\| `(\w+)` \|",
        (ROOT / "docs" / "reference" / "operator-log-events.md").read_text(),
        re.MULTILINE,
    )
)
"""Of the operator's log; another test holds that page to the code."""
NODE_EVENTS = set(
    re.findall(
        r"^\| `(\w+)` \|",
        (ROOT / "docs" / "reference" / "log-events.md").read_text(),
        re.MULTILINE,
    )
)
NAMES = EVENTS | NODE_EVENTS | {limit.value for limit in Limit}


def commands(text: str) -> Iterator[list[str]]:
    """Every command of the shell blocks, in words; assignments of variables left out."""
    for block in re.findall(r"^ *```sh\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words and not all(re.fullmatch(r"[A-Z]+=\S*", word) for word in words):
                yield words


def quoted(text: str) -> set[str]:
    """Every word in backticks outside of blocks."""
    return set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)))


def test_each_alert_has_a_runbook_and_each_runbook_an_alert() -> None:
    assert set(PAGES) == set(BY_NAME)


@pytest.mark.parametrize("name", PAGES)
def test_a_runbook_says_what_a_tired_person_asks_in_the_same_order(name: str) -> None:
    text = PAGES[name].read_text()
    alert = BY_NAME[name]
    title, _, about, *_ = text.splitlines()
    assert title == f"# {alert.name}"
    assert about.startswith(f"*{alert.severity.capitalize()}, after {alert.lasts}.* ")
    assert about.count(". ") <= 2, "what it means is one sentence"
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    parts = re.split(r"^## .*$", text, flags=re.MULTILINE)[1:]
    assert all(part.strip() for part in parts)
    assert re.match(r"\*?\*?(No|Not|Yes|It|Hardly|What is committed)", parts[0].strip())
    assert "```sh" in parts[2]
    assert re.search(r"^- ", parts[5].strip(), re.MULTILINE)


def test_the_list_of_runbooks_is_whole() -> None:
    text = EVERY["README"].read_text()
    for name, alert in BY_NAME.items():
        assert f"- [{alert.name}]({name}.md): " in text
    critical, warning = text.split("**Warning**")
    for name, alert in BY_NAME.items():
        assert f"]({name}.md)" in (critical if alert.severity == "critical" else warning)


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("name", EVERY)
def test_links_lead_to_pages_and_to_headings(name: str) -> None:
    path = EVERY[name]
    found = re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", path.read_text())
    assert found
    for target, heading in found:
        page = (path.parent / target).resolve() if target else path
        assert page.exists(), target
        if heading:
            assert heading in anchors(page), f"{target}#{heading}"


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    found: Any = typer.main.get_command(PROGRAMS[words[0]])
    rest = words[1:]
    while isinstance(found, click.Group) or hasattr(found, "commands"):
        assert rest, f"{shlex.join(words)}: which command?"
        assert rest[0] in found.commands, f"{shlex.join(words)}: there is no {rest[0]}"
        found = found.commands[rest.pop(0)]
    return found, rest


@pytest.mark.parametrize("name", EVERY)
def test_commands_and_flags_exist(name: str) -> None:
    found = list(commands(EVERY[name].read_text()))
    assert found
    for words in found:
        assert words[0] == "kubectl", words
        inner = words[words.index("--") + 1 :] if "--" in words else []
        if inner:
            command, rest = command_of(inner)
            options = {option for parameter in command.params for option in parameter.opts}
            for word in rest:
                flag = word.partition("=")[0]
                assert not flag.startswith("-") or flag in options, shlex.join(words)
    for words in (shlex.split(word) for word in quoted(EVERY[name].read_text()) if "'" not in word):
        if len(words) > 1 and words[0] in PROGRAMS:
            group: Any = typer.main.get_command(PROGRAMS[words[0]])
            for word in words[1:]:
                assert word in group.commands, words
                group = group.commands[word]
                if not hasattr(group, "commands"):
                    break


@pytest.mark.parametrize("name", EVERY)
def test_metrics_guards_settings_and_codes_that_are_named_exist(name: str) -> None:
    families = list(Metrics().registry.collect())
    metrics = {family.name for family in families}
    metrics |= {f"{family.name}_total" for family in families if family.type == "counter"}
    codes = (ROOT / "docs" / "reference" / "exit-codes.md").read_text()
    for word in quoted(EVERY[name].read_text()):
        if re.fullmatch(r"raftnode_[a-z_]+", word):
            assert f"`{word}`" in DOCUMENTED, word
        elif re.fullmatch(r"kraftquorum_[a-z_]+", word):
            assert word in metrics, word
        elif re.fullmatch(r"[a-z]+(_[a-z]+)+", word):
            assert word in GUARDS or word in NodeSettings.model_fields or word in NAMES, word
        elif re.fullmatch(r"[A-Z]+(_[A-Z]+)+", word):
            assert word in ERRORS or f"`{word}`" in codes, word
        elif re.fullmatch(r"[a-z]+(-[a-z]+){2,}", word):
            assert word.replace("-", "_") in NodeSettings.model_fields, word


def schema_has(schema: Any, path: str) -> bool:
    for part in re.findall(r"\w+", re.sub(r"\[[^]]*\]", "", path)):
        schema = schema.get("items", schema)
        if part not in schema.get("properties", {}):
            return False
        schema = schema["properties"][part]
    return True


def test_fields_of_the_resource_that_are_read_exist() -> None:
    schemas: dict[str, Any] = {
        kind.short_name: crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for kind in KINDS.values()
    }
    read = 0
    for path in EVERY.values():
        for words in commands(path.read_text()):
            kind = next((word for word in words if word in schemas), None)
            if kind is None or not any(word.startswith("jsonpath") for word in words):
                continue
            (template,) = (word for word in words if word.startswith("jsonpath="))
            ranged = re.search(r"range ([.\w]+)\[\*\]", template)
            for field in re.findall(r"\{(\.[\w.]+)", template):
                inside = f"{ranged[1]}{field}" if ranged else field
                if inside.startswith((".status", ".spec")):
                    assert schema_has(schemas[kind], inside), inside
                    read += 1
    assert read > 20
    assert not schema_has(schemas["krq"], ".status.timeline.when")
    assert not schema_has(schemas["kfq"], ".status.timeline")
    for path in EVERY.values():
        for word in quoted(path.read_text()):
            if re.fullmatch(r"(spec|status)\.[a-zA-Z.]+", word):
                assert any(schema_has(schema, word) for schema in schemas.values()), word


def test_the_steps_and_guards_are_all_told() -> None:
    stuck = PAGES["kraftquorum-operation-stuck"].read_text()
    table = {word for line in re.findall(r"^\| `.*", stuck, re.MULTILINE) for word in quoted(line)}
    assert {step for steps in STEPS.values() for step in steps} <= table
    blocking = PAGES["kraftquorum-guard-blocking"].read_text()
    told = quoted(blocking) & set(GUARDS)
    assert len(told) > 20
    assert set(re.findall(r"condition `(\w+)`", blocking)) <= set(CONDITIONS)


def test_a_claim_is_only_deleted_for_one_replica_that_the_reader_has_named() -> None:
    """`$I` is empty until it is set, and then there is no such claim."""
    for path in EVERY.values():
        for words in commands(path.read_text()):
            if words[:2] == ["kubectl", "delete"]:
                assert words[2] in {"pvc", "pod"}, words
                assert any(word.endswith("$Q-$I") for word in words), words
                assert "--force" not in words
            if words[:3] == ["kubectl", "delete", "pvc"]:
                assert "--wait=false" in words, "it would wait for the pod for ever"
                assert "all other voters are" in path.read_text()


def test_the_page_names_runbooks_that_exist() -> None:
    assert {*RUNBOOKS.values(), PAUSED, DISK_FULL} <= set(PAGES)
    about_kafka = {
        value
        for value in vars(kafka_verdict).values()
        if isinstance(value, str) and value.startswith("kraftquorum-kafka-")
    }
    assert about_kafka == {name for name in PAGES if name.startswith("kraftquorum-kafka-")}
    assert set(RUNBOOKS) <= set(LEVELS)
