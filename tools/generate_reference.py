"""Write docs/reference/ and tables of docs/evidence/; with --check, say if they are current.

Pages: http-api, node-settings, node-cli, node-metrics, exit-codes and operator-cli;
bad-requests, bad-changes, surviving-mutants and semantic-mutants. What a page says of one thing
stands beside that thing in the code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from typer.main import get_command

from kraftquorum_operator.cli import app as operator_app
from kraftquorum_operator.kafka.exit_codes import MEANINGS as ADVISE_MEANINGS
from mutants import patches, survivors
from proofkit.badchanges import OPERATIONS, wrong_changes
from proofkit.badrequests import (
    CUT_OFF,
    REQUESTS,
    SILENCE,
    TAKEN,
    TO_LEADER,
    wrong_requests,
)
from proofkit.badrequests.batches import wrong_batches
from proofkit.badrequests.clients import wrong_bytes
from proofkit.memoryservice import MemoryService
from raftnode.api.errors import DOCUMENT_NAMES, ERRORS
from raftnode.api.http import ApiLimits, Route
from raftnode.api.metrics import AccessMetrics, HttpMetrics, LimitMetrics, SessionMetrics
from raftnode.api.openapi import openapi, route_errors
from raftnode.api.server import all_routes
from raftnode.cli import make_app
from raftnode.commands.output import EXIT_CODE_MEANINGS
from raftnode.runtime.metrics.leader_metrics import LEADER_ROWS, LeaderCollector
from raftnode.runtime.metrics.node_metrics import NodeMetrics
from raftnode.runtime.metrics.tls_metrics import TlsMetrics
from raftnode.settings import DOCUMENT_NAMES as SETTING_NAMES
from raftnode.settings import ENV_PREFIX, NodeSettings

DOCS = Path(__file__).resolve().parent.parent / "docs"
MADE = "<!-- Made by tools/generate_reference.py; do not edit. -->\n"


def http_api() -> Iterator[str]:
    """Describe every route, error and model."""
    routes = all_routes(MemoryService(), ApiLimits(), CollectorRegistry())
    document: dict[str, Any] = openapi(routes, version="0")
    yield "# HTTP API\n"
    yield (
        "JSON unless said otherwise; the same as OpenAPI 3.1 is at `/openapi.json`. Requests are "
        "read strictly: an unknown field or parameter is an error. Answers may grow fields: skip "
        "those that you do not know. Replicas are `node_id` with `directory_id`, the UUID of the "
        "storage in 22 characters of URL-safe base64.\n"
    )
    yield (
        "A put is a record with key and value, a delete one with key and null, a raw append one "
        "without key: the log is a change log. An offset above the high watermark waits, then "
        "reads as empty. Bytes that are not HTTP at all are answered with INVALID_REQUEST or a "
        "closed connection.\n"
    )
    yield (
        "With an [access file](node-settings.md#access_file), a request needs a bearer token "
        "(`Authorization: Bearer …`) or a client certificate whose subject has one of the roles "
        "under *needs*. A request may name the cluster that it means in the header "
        "`X-Kraftquorum-Cluster-Id`; a node of another cluster refuses it, and a blank node does "
        "not.\n"
    )
    for route in routes:
        yield from _route(route, document["paths"][route.path][route.method.lower()])
    yield "## Errors\n"
    yield (
        "Every answer that is not 2xx is an `ApiError`. With outcome `not_done` and status 421, "
        "429 or 503 the same request may succeed later or at another node (`NOT_LEADER` names the "
        "leader; it is 421, not a redirect, since HTTP clients follow redirects in ways that "
        "repeat writes). With another status it will be refused again. With outcome `unknown` a "
        "write may have been done or still may be: look before you repeat it.\n"
    )
    yield (
        "| Error | Status | Outcome | Ask again? | In the KIPs | Meaning |\n"
        "|---|---|---|---|---|---|"
    )
    for name, kind in sorted(ERRORS.items()):
        again = "yes" if kind.retriable else "no"
        document_name = f"`{DOCUMENT_NAMES[name]}`" if name in DOCUMENT_NAMES else ""
        yield (
            f"| `{name}` | {kind.status} | `{kind.outcome}` | {again} | {document_name} "
            f"| {_cell(kind.meaning)} |"
        )
    yield "\n## Models\n"
    for name, schema in document["components"]["schemas"].items():
        yield from _model(name, schema)


def node_settings() -> Iterator[str]:
    """Describe every setting."""
    yield "# Settings of the node\n"
    yield (
        "Each setting is a flag of `raftnode run`, an environment variable and a line of the "
        "properties file (`--config`). The flag wins over the variable, and the variable over the "
        "file. The file accepts the names on this page, those of the environment, and those of "
        "the KIPs and of Kafka. The node does not start with an unknown name in the file, or with "
        "an unknown variable that begins with `RAFTNODE_`. It ignores "
        "`RAFTNODE_BOOTSTRAP_SERVER` and `RAFTNODE_CLIENT_…`, which belong to the commands, and "
        "the variables that Kubernetes sets for a Service of that name.\n"
    )
    for name, field in NodeSettings.model_fields.items():
        yield f"## `{name}`\n"
        yield f"{field.description}\n"
        if field.is_required():
            yield "- Required."
        elif isinstance(field.default, tuple):
            yield "- Default: empty."
        else:
            yield f"- Default: `{field.default}`."
        limits = [
            f"{word} {bound}"
            for attribute, word in (("ge", "at least"), ("le", "at most"))
            for bound in (getattr(rule, attribute, None) for rule in field.metadata)
            if bound is not None
        ]
        if limits:
            yield f"- Allowed: {', '.join(limits)}."
        yield f"- Flag: `--{name.replace('_', '-')}`; environment: `{ENV_PREFIX}{name.upper()}`."
        if name in SETTING_NAMES:
            in_documents = ", ".join(f"`{alias}`" for alias in SETTING_NAMES[name])
            yield f"- In the documents: {in_documents}."
        yield ""


def node_cli() -> Iterator[str]:
    """Describe every command and flag."""
    yield "# The `raftnode` program\n"
    yield (
        "Results go to stdout; a failure is one line on stderr and an [exit code](exit-codes.md). "
        "The documents' spelling `metadata-quorum --describe [status|replication]`, `--add-voter`, "
        "`--remove-voter` is taken too.\n"
    )
    root: Any = get_command(make_app())
    for name, command in root.commands.items():
        for path, subcommand in _commands(name, command):
            yield from _command(f"raftnode {path}", subcommand)


def operator_cli() -> Iterator[str]:
    """Describe every command of the operator's program."""
    yield "# The `kraftquorum-operator` program\n"
    yield (
        "`run` is the operator, which [its settings](operator-settings.md) describe. Results go to "
        "stdout; a failure is one line on stderr and an exit code that is not 0.\n"
    )
    root: Any = get_command(operator_app)
    for name, command in root.commands.items():
        for path, subcommand in _commands(name, command):
            yield from _command(f"kraftquorum-operator {path}", subcommand)
    yield "## Exit codes of `kafka advise`\n"
    yield "| Code | Name | Meaning |\n|---|---|---|"
    for code, meaning in ADVISE_MEANINGS.items():
        yield f"| {int(code)} | `{code.name}` | {_cell(meaning)} |"


def node_metrics() -> Iterator[str]:
    """Describe every metric."""
    registry = CollectorRegistry()
    NodeMetrics(registry)
    HttpMetrics(registry)
    SessionMetrics(registry)
    LimitMetrics(registry)
    TlsMetrics(registry, ("peer", "api"))
    AccessMetrics(registry)
    LeaderCollector(lambda: None, registry)
    yield "# Metrics of the node\n"
    yield (
        "At `/metrics`, for Prometheus; what may change and how many series there are: "
        "[metrics](metrics.md). Where the documents have a maximum and an average, there "
        "is a histogram; where a rate, a counter. What only a leader knows has no series on the "
        "others, or 0 where it counts something. `process_resident_memory_bytes`, "
        "`process_open_fds` and the like are there, too.\n"
    )
    yield "| Metric | Type | Labels | In the documents | Meaning |\n|---|---|---|---|---|"
    rows = {
        row.name: row
        for row in (
            *NodeMetrics.rows(),
            *HttpMetrics.rows(),
            *SessionMetrics.rows(),
            *LimitMetrics.rows(),
            *TlsMetrics.rows(),
            *AccessMetrics.rows(),
            *LEADER_ROWS,
        )
    }
    for metric in sorted(registry.collect(), key=lambda family: family.name):
        row = rows[metric.name]
        theirs = row.document_name
        suffix = {"counter": "_total", "info": "_info"}.get(metric.type, "")
        yield (
            f"| `{metric.name}{suffix}` | {metric.type} | {', '.join(row.labels)} "
            f"| {f'`{theirs}`' if theirs else ''} | {_cell(row.text)} |"
        )


def exit_codes() -> Iterator[str]:
    """Describe every exit code."""
    yield "# Exit codes\n"
    yield (
        "Of `raftnode`. `raftnode run` also writes the code's name and the reason as JSON to the "
        "termination message, which Kubernetes shows in the pod's status.\n"
    )
    yield "| Code | Name | Meaning |\n|---|---|---|"
    for code, meaning in sorted(EXIT_CODE_MEANINGS.items(), key=lambda item: int(item[0])):
        yield f"| {int(code)} | `{code.name}` | {_cell(meaning)} |"


def bad_requests() -> Iterator[str]:
    """Describe what a request between nodes may get wrong, and the answers."""
    yield "# Wrong requests between nodes\n"
    yield (
        "A node's answers to a request of another node in which one value is wrong. The request "
        "comes from a replica whose requests the node accepts otherwise: from its leader to a "
        "follower, from an observer to a leader. Nothing changes on the node, in memory or on "
        "disk, with one exception: after EndQuorumEpoch with INCONSISTENT_VOTER_SET the node no "
        "longer follows the leader, which is gone in any case (KIP-595). "
        "`tests/node/test_bad_requests.py` sends every row to the port of a real node, over a "
        "plain connection and, from a peer with a certificate, over mutual TLS. The rows "
        "follow from the messages: each field of the message (Kafka's, or the compact Fetch), of "
        "our envelope and of our own extensions has a row for each kind of wrong value that its "
        "type allows (missing, negative, huge, another). "
        "`tests/unit/proofkit/test_badrequests.py` fails if a row is missing.\n"
    )
    yield (
        "Codes below 1000 are Kafka's; those from 1000 on are our own. "
        f"*{CUT_OFF.capitalize()}*: the node closes the connection, because it cannot separate "
        f"the bytes that follow. *{SILENCE.capitalize()}*: the node drops the request as a "
        "network would. An epoch far above all others is damage, and taking it over would leave "
        f"no higher epoch. `{TAKEN}`: allowed, or a field of Kafka's that our replicas do not "
        "read. Rows with *of itself*: the sender states a number that only rises, and the node "
        "ignores lower numbers from it afterwards.\n"
    )
    for request in REQUESTS:
        receiver = "leader" if request in TO_LEADER else "follower"
        yield f"## {request}, to a {receiver}\n"
        yield "| field | value | answer |"
        yield "|---|---|---|"
        for wrong in wrong_requests():
            if wrong.request == request:
                plain = wrong.answer in {CUT_OFF, SILENCE}
                answer = wrong.answer if plain else f"`{wrong.answer}`"
                value = f"{wrong.value}, of itself" if wrong.spends_sender else wrong.value
                yield f"| {wrong.field} | {value} | {answer} |"
        yield ""
    yield "## A client's bytes, to any node\n"
    yield (
        "What a client may get wrong around a request to the API port. The node does nothing of "
        "it, and the connection ends. `tests/node/test_bad_clients.py` sends every row. The "
        "errors are those of the [API](../reference/http-api.md).\n"
    )
    yield "| what is sent | answer |"
    yield "|---|---|"
    for row in wrong_bytes():
        answer = row.answer if row.answer == CUT_OFF else f"`{row.answer}`"
        yield f"| {row.what} | {answer} |"
    yield ""
    yield "## A client's finished batch, to the leader\n"
    yield (
        "What may be wrong with the batch of "
        "[APPEND_BATCH](../reference/session-protocol.md#finished-batches). The leader refuses it "
        "with `INVALID_REQUEST` and the reason, and writes nothing. "
        "`tests/node/test_bad_clients.py` sends every row to a real node.\n"
    )
    yield "| the batch has | the answer says |"
    yield "|---|---|"
    for batch in wrong_batches():
        yield f"| {batch.what} | {batch.reason} |"
    yield ""


def bad_changes() -> Iterator[str]:
    """Describe what can be wrong with a request to form or change a quorum, and the answers."""
    yield "# Wrong requests to form or change a quorum\n"
    yield (
        "A leader's answers over HTTP to a request in which one value is wrong: each field of "
        "each operation that forms a quorum or changes its voters, left out, null, negative, "
        "huge, of another type, or another replica's. The rows follow from the models of the "
        "[API](../reference/http-api.md). The message of INVALID_REQUEST names the field, and "
        "nothing changes. `tests/node/test_bad_changes.py` sends every row to the leader of a "
        "real quorum, and those of CancelReassignment while a target is under way. AddVoter's "
        "`replaces` may name a replica that is no voter: the leader then adds the new voter and "
        "removes none. Requests between nodes have [their own page](bad-requests.md).\n"
    )
    rows = list(wrong_changes())
    for operation, (path, _) in OPERATIONS.items():
        yield f"## {operation}: `POST {path}`\n"
        yield "| field | value | answer |"
        yield "|---|---|---|"
        answers: dict[tuple[str, str], list[str]] = {}
        for row in rows:
            if row.operation == operation:
                answers.setdefault((row.field, row.answer), []).append(row.value)
        for (field, answer), values in answers.items():
            status = ERRORS[answer].status
            yield f"| `{field}` | {', '.join(values)} | {status} `{answer}` |"
        yield ""


def surviving_mutants() -> Iterator[str]:
    """Say for each mutant that may survive `make mutants` why no test needs to notice it."""
    reasons = survivors.read()
    count = sum(len(reason.mutants) for reason in reasons)
    yield "# Mutants that may survive\n"
    yield (
        f"`make mutants` breaks the core in thousands of small ways; see [how and with what "
        f"result](proof.md#mutants). No test notices these {count} faults, and none needs to. A "
        "fault that survives and is not on this page fails the run.\n"
    )
    for reason in reasons:
        yield f"## {reason.title}\n"
        yield f"{reason.why}\n"
        for mutant in reason.mutants:
            yield f"`{mutant.function}`\n\n```diff"
            yield from (f"-{line}" for line in mutant.was.splitlines())
            yield from (f"+{line}" for line in mutant.now.splitlines())
            yield "```\n"


def semantic_mutants() -> Iterator[str]:
    """List the rules that `make mutants SEMANTIC=1` breaks, with the sources of such bugs."""
    mutants = patches.read()
    yield "# Semantic mutants\n"
    yield (
        f"`make mutants SEMANTIC=1` breaks the core in these {len(mutants)} ways, one at a time, "
        "and a fast test must notice each; see [how](proof.md#whole-rules). The source is where "
        "such a bug, or a warning of it, was published. The patches are in "
        "[semantic.toml](../../tools/mutants/semantic.toml).\n"
    )
    yield "| mutant | rule | what is broken | where | source |"
    yield "|---|---|---|---|---|"
    for patch in mutants:
        places = dict.fromkeys(change.place.partition(":")[2] for change in patch.changes)
        where = ", ".join(f"`{place}`" for place in places)
        yield f"| {patch.name} | {patch.rule} | {patch.story} | {where} | {patch.source} |"


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "reference/http-api.md": http_api,
    "reference/node-settings.md": node_settings,
    "reference/node-cli.md": node_cli,
    "reference/node-metrics.md": node_metrics,
    "reference/exit-codes.md": exit_codes,
    "reference/operator-cli.md": operator_cli,
    "evidence/bad-requests.md": bad_requests,
    "evidence/bad-changes.md": bad_changes,
    "evidence/surviving-mutants.md": surviving_mutants,
    "evidence/semantic-mutants.md": semantic_mutants,
}


NEXT = {
    "reference/http-api.md": "[use the HTTP API from Python](../howto/client.md), "
    "[change the voters by hand](../howto/voters.md)",
    "reference/node-settings.md": "[set them in a KRaftQuorum resource](crd.md), "
    "[production](../operations/production.md)",
    "reference/node-cli.md": "[change the voters by hand](../howto/voters.md), "
    "[exit codes](exit-codes.md)",
    "reference/node-metrics.md": "[monitoring](../operations/monitoring.md), "
    "[alerts](alerts.md), [metrics of the operator](operator-metrics.md)",
    "reference/exit-codes.md": "[failure modes](../operations/failure-modes.md), "
    "[runbooks](../operations/runbooks/README.md)",
    "reference/operator-cli.md": "[check the controllers of Apache Kafka](../howto/kafka.md), "
    "[operator settings](operator-settings.md)",
}
"""What a reader of a reference page needs after it."""


def render() -> dict[str, str]:
    """Make every page, by its path below docs/."""
    pages = {name: MADE + "\n" + "\n".join(page()).rstrip() + "\n" for name, page in PAGES.items()}
    return {
        name: f"{text}\nNext: {NEXT[name]}.\n" if name in NEXT else text
        for name, text in pages.items()
    }


def _route(route: Route, operation: dict[str, Any]) -> Iterator[str]:
    yield f"## `{route.method} {route.path}`\n"
    yield f"{route.summary}\n"
    yield f"- needs: {_need(operation)}"
    for parameter in operation.get("parameters", []):
        if parameter["in"] == "header":
            continue
        yield f"- {parameter['in']} `{parameter['name']}`: {parameter['description']}" + (
            _shape(parameter["schema"]) if parameter["in"] == "query" else ""
        )
    if route.json_body is not None:
        yield f"- body, `application/json`: {_link(route.json_body.__name__)}"
    if route.binary_body is not None:
        yield f"- body, `application/octet-stream`: {route.binary_body}"
    answer = (
        f"`{route.response}`" if isinstance(route.response, str) else _link(route.response.__name__)
    )
    headers = (
        f", headers {', '.join(f'`{header}`' for header in route.headers)}" if route.headers else ""
    )
    yield f"- answer: {answer}{headers}"
    yield f"- errors: {', '.join(f'`{error}`' for error in route_errors(route))}\n"


def _need(operation: dict[str, Any]) -> str:
    keys = {
        "none": "",
        "key": " for the key",
        "prefix": " for keys with the prefix",
        "everything": " without `key_prefixes`",
    }
    roles = " or ".join(f"`{role}`" for role in operation["x-roles"])
    return f"{roles}{keys[operation['x-keys']]}" if roles else "nothing; open to each client"


def _model(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"### {name}\n"
    yield f"{_words(schema.get('description', ''))}\n"
    required = schema.get("required", [])
    for field, shape in schema.get("properties", {}).items():
        need = "" if field in required else ", optional"
        about = f": {_words(shape['description'])}" if "description" in shape else ""
        yield f"- `{field}` ({_type(shape)}{need}){about}"
    yield ""


def _type(shape: dict[str, Any]) -> str:
    if "$ref" in shape:
        return _link(shape["$ref"].rpartition("/")[2])
    if "anyOf" in shape:
        return " or ".join(_type(option) for option in shape["anyOf"])
    if "enum" in shape:
        return ", ".join(f"`{value}`" for value in shape["enum"])
    if "const" in shape:
        return f"`{shape['const']}`"
    if shape.get("type") == "array":
        return f"list of {_type(shape.get('items', {}))}"
    return str(shape.get("type", "any"))


def _shape(schema: dict[str, Any]) -> str:
    facts = [_type(schema)]
    facts += [f"at least {schema['minimum']}"] if "minimum" in schema else []
    facts += [f"at most {schema['maximum']}"] if "maximum" in schema else []
    facts += [f"default `{schema['default']}`"] if schema.get("default") not in {None, ""} else []
    return f" ({', '.join(facts)})"


def _commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from _commands(f"{path} {name}", child)


def _command(path: str, command: Any) -> Iterator[str]:
    yield f"## `{path}`\n"
    yield f"{_words(command.help or '')}\n"
    for parameter in command.params:
        names = parameter.opts if parameter.param_type_name == "option" else [parameter.metavar]
        shown = ", ".join(f"`{name}`" for name in names if name) or f"`{parameter.name}`"
        text = _words(getattr(parameter, "help", "") or "")
        need = " Required." if parameter.required else ""
        variable = f" Environment: `{parameter.envvar}`." if parameter.envvar else ""
        yield f"- {shown}: {text}{need}{variable}"
    yield ""


def _link(model: str) -> str:
    return f"[{model}](#{model.lower()})"


def _words(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _words(text).replace("|", "\\|")


def main() -> int:
    """Write the pages, or with --check compare them."""
    stale = [
        name
        for name, text in render().items()
        if not (DOCS / name).exists() or (DOCS / name).read_text() != text
    ]
    if "--check" in sys.argv[1:]:
        print("\n".join(f"stale: {name}" for name in stale) or "current")
        return 1 if stale else 0
    for name, text in render().items():
        (DOCS / name).write_text(text)
    print(f"wrote {', '.join(stale)}" if stale else "all were current")
    return 0


if __name__ == "__main__":
    sys.exit(main())
