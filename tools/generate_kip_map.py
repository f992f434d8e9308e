"""Write docs/evidence/kip-map.md: every row of the documents, every own rule, and their tests.

docs/evidence/kip-map.toml says what a row asks, how far it is built and in which files. The tests
name the rows that they check:

- `@pytest.mark.rule("P28", "S13")` on a test, or `pytestmark` for all tests of a file;
- the first line of a golden script, up to its colon: `# S7, P9: removed, but ...`;
- the name of a mutant, a string of a test's file: `"P8-votes-for-a-shorter-log"`.

Which of them run once more with something taken out, and of which file, the marks `without`
say (tools/without.py). The mutants of tools/mutants say themselves which row they break.

The tool parses the tests and does not import them, so it needs none of their dependencies.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import generate_scenarios
from mutants import patches

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "docs" / "evidence" / "kip-map.toml"
PAGE = ROOT / "docs" / "evidence" / "kip-map.md"
HOMES = (ROOT / "raftnode" / "raftnode", ROOT / "operator" / "kraftquorum_operator", ROOT)
MUTANT = re.compile(r"([PS]\d+)-[a-z][A-Za-z0-9-]+")
NOTHING_TAKEN_OUT: dict[str, str] = {
    "core/messages.py": "only declares messages; the tests break the code that makes them",
    "core/records.py": "only declares records; the tests break the code that makes them",
    "transport/gate.py": "only declares the interface of a gate; the tests break the gate",
    "settings/model.py": (
        "only declares settings and defaults; the tests break the code that reads them"
    ),
    "proofkit/proofkit/specification/KRaftQuorum.tla": (
        "is proof itself; each of its own mutants breaks a property in a test"
    ),
    "proofkit/proofkit/explorer/world.py": "is proof itself; its tests break the core instead",
    "proofkit/proofkit/simulator/node.py": "is proof itself; its tests break the core instead",
    "bench/kraftquorum_bench/zookeeper.py": "measures and decides nothing",
    "pyproject.toml": "configures the linter; a test runs the linter with the rule and without it",
}
"""Files that a row names and from which no test takes anything, and why."""
STATES = ("built", "partly", "not yet", "not built", "nothing to build")

HEAD = """\
<!-- Made by tools/generate_kip_map.py from kip-map.toml and the tests; do not edit. -->

# From the documents to the code

Five documents describe the protocol. For each of their requirements, this page says whether it is
built, in which files, what differs and why, and which tests check it. The tests name the rows
themselves. A test fails if a built row has no test, or if a test names a row that does not exist.

The documents: **A** KIP-595 (the protocol), **B** KIP-856 (disk failure and recovery), **C**
KIP-642 (dynamic reassignment), **D** a diff of KIP-595, **E** a blog post on the protocol.
Where they disagree, the row says which document we follow. Where they leave a way to lose data,
[our own rules](#our-own-rules-identity) close it. Our rules win over the documents.
KIP-856 calls a *directory id* storage UUID.

*Built* means that the implementation keeps the rule, in whatever form. *Partly* says what is
missing. *Not yet* is planned. *Not built* is left out on purpose, and says why.

A test with a star also runs with its rule taken out of the code, and must then fail by its own
assertions. The same holds for mutants, whose names begin with the number of the row. A star on
code means that a test of the row runs with something taken out of that file. A test fails if a
built row has no test with a star, or if it names a file without one and
[the list below](#code-without-a-star) gives no reason. [Semantic mutants](semantic-mutants.md)
break the code of a row as bugs of other quorums did: `make mutants SEMANTIC=1`.
"""

LEFT_OUT = """\
## Left out on purpose

**Degrading voters that shut down** (C). KIP-642 wants a voter that stops to become an observer
first. Then every restart is two voter changes, with a smaller set in between: a rolling restart
of three voters would run three times on two voters, neither of which may fail. An administrator
who stops all nodes would shrink the set to the last voter, and only that voter's disk would hold
the writes acknowledged meanwhile. Here a voter that restarts keeps its disk and its place, and the
others are a majority without it. The resource says how many voters there are, and only a voter
that leaves for good is removed.

**DiscoverBrokers** (C). The gossip would spread addresses, and the KIP gives no format for its
messages. Nodes get addresses in another way: each node has a DNS name that outlives its pod, the
voter records carry endpoints, every answer names the leader's endpoint, and bootstrap servers help
when all of these are old. Identity never comes from an address (S6). So gossip would only add
another source of wrong addresses.

**Kafka's TCP protocol.** The bodies of messages between nodes are Kafka's, each in one version, in
an envelope of our own. Clients and tools use HTTP. Kafka's tools and controllers cannot connect.
"""


def rows() -> dict[str, dict[str, Any]]:
    """Every row by its number, in order."""
    return tomllib.loads(ROWS.read_text(encoding="utf-8"))


@cache
def claims() -> dict[str, list[str]]:
    """The tests that check each row, by row: `path` or `path::name`."""
    tests_by_row: dict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        for test, row in _claims_of(ast.parse(path.read_text(encoding="utf-8"))):
            tests_by_row[row].add(f"{name}::{test}" if test else name)
    for path in sorted((ROOT / "tests").rglob("testdata/*.txt")):
        first = path.read_text(encoding="utf-8").partition("\n")[0].partition(":")[0]
        for row in re.findall(r"\b[PS]\d+\b", first):
            tests_by_row[row].add(path.relative_to(ROOT).as_posix())
    return {row: sorted(tests) for row, tests in tests_by_row.items()}


def _claims_of(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        match node:
            case (
                ast.FunctionDef(name=test, decorator_list=marks)
                | ast.AsyncFunctionDef(name=test, decorator_list=marks)
            ):
                for mark in marks:
                    yield from ((test, row) for row in _marked(mark))
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
                for mark in ast.walk(value):
                    yield from (("", row) for row in _marked(mark))
            case ast.Constant(value=str(text)):
                if (mutant := MUTANT.fullmatch(text)) is not None:
                    yield text, mutant[1]
            case _:
                pass


def _marked(node: ast.AST) -> list[str]:
    match node:
        case ast.Call(func=ast.Attribute(attr="rule"), args=names):
            return [ast.literal_eval(name) for name in names]
        case _:
            return []


def taken_out() -> dict[str, dict[str, set[str]]]:
    """By row: the tests that are run without something, each with the files that it is out of."""
    said = claims()
    cases = [case for case in generate_scenarios.cases() if case.cuts]
    by_row: dict[str, dict[str, set[str]]] = defaultdict(dict)
    for row, tests in said.items():
        for case in cases:
            test = f"{case.path}::{case.test}"
            if test in tests or case.path in tests:
                by_row[row][test] = {_file_of(place) for cut in case.cuts for place in cut[::3]}
        for test in tests:
            if MUTANT.fullmatch(test.partition("::")[2]):
                by_row[row][test] = set()
    return by_row


def _file_of(place: str) -> str:
    """The file of `core.replica:Replica.halt`, as a row names it."""
    module = place.partition(":")[0].removeprefix("kraftquorum_operator.")
    return f"{module.replace('.', '/')}.py"


def semantic_mutants() -> dict[str, list[str]]:
    """The mutants of tools/mutants by the row that they break."""
    by_row: dict[str, list[str]] = defaultdict(list)
    for patch in patches.read():
        by_row[patch.rule].append(patch.name)
    return by_row


def render() -> str:
    """Make the page."""
    return "\n".join(_page()).rstrip() + "\n"


def _page() -> Iterator[str]:
    table, tests, starred, mutants = rows(), claims(), taken_out(), semantic_mutants()
    yield HEAD
    yield "| | " + " | ".join(STATES) + " | |\n|---|" + "---|" * (len(STATES) + 1)
    for kind, what in (("P", "rows of the documents"), ("S", "rules of our own")):
        states = Counter(row["state"] for name, row in table.items() if name[0] == kind)
        counts = " | ".join(str(states[state]) for state in STATES)
        yield f"| {what} | {counts} | {states.total()} |"
    missing = [
        f"[{name}](#{name.lower()}) {row['state']}"
        for name, row in table.items()
        if row["state"] in {"partly", "not yet", "not built"}
    ]
    yield f"\nNot built, or only partly: {', '.join(missing)}.\n"
    shown = Counter(name[0] for name in table if starred.get(name))
    yield f"Rows with a starred test: {shown['P']} of the documents, {shown['S']} of our own.\n"
    group = ""
    for name, row in table.items():
        title = row["group"] if name[0] == "P" else f"Our own rules: {row['group'].lower()}"
        if title != group:
            group = title
            yield f"## {group}\n"
        yield from _row(row, name, tests.get(name, []), starred.get(name, {}))
        if name in mutants:
            yield f"- Semantic mutants: {', '.join(f'`{mutant}`' for mutant in mutants[name])}."
        yield ""
    yield "## Code without a star\n"
    yield "Rows name these files as their code, and no test takes anything out of them:\n"
    for file, why in NOTHING_TAKEN_OUT.items():
        yield f"- `{file}` {why}."
    yield ""
    yield LEFT_OUT


def _row(
    row: dict[str, Any], name: str, tests: list[str], starred: dict[str, set[str]]
) -> Iterator[str]:
    yield f"### {name}\n"
    asks = row["asks"]
    yield (asks if asks.endswith(".") else f"{asks}.") + "\n"
    state = f"**{row['state'].capitalize()}**"
    if "differs" in row:
        state += f": {row['differs']}"
    facts = [f"- {state}."]
    if "from" in row:
        facts.append(f"- From {', '.join(row['from'])}.")
    if "where" in row:
        broken = {file for files in starred.values() for file in files}
        code = (f"`{file}`{_star(file in broken)}" for file in row["where"])
        facts.append(f"- Code: {', '.join(code)}.")
    yield "\n".join(facts)
    files: dict[str, list[str]] = defaultdict(list)
    for test in sorted({*tests, *starred}):
        path, _, function = test.partition("::")
        files[path] += [f"`{function}`{_star(test in starred)}"] if function else []
    for path, functions in files.items():
        yield f"- `{path}`" + (f": {', '.join(functions)}" if functions else "")


def _star(shown: bool) -> str:  # noqa: FBT001
    return r"\*" if shown else ""


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    print(f"written: {PAGE.name}")
