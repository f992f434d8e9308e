"""`kraftquorum-operator kafka advise`."""

from __future__ import annotations

import asyncio
import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kraftquorum_operator.errors import SettingsError
from kraftquorum_operator.kafka import report
from kraftquorum_operator.kafka.advice import Advice, Kind, Limits
from kraftquorum_operator.kafka.exit_codes import AdviseExitCode
from kraftquorum_operator.kafka.facts import MappedController, View
from kraftquorum_operator.kafka.id_map import parse_bootstrap, parse_id_map
from kraftquorum_operator.kafka.judgement import judge
from kraftquorum_operator.kafka.query import Target, query
from kraftquorum_operator.kafka.refusals import Refusal
from kraftquorum_operator.kafka.security import read_security

app = typer.Typer(
    no_args_is_help=True,
    help="Check the controllers of an Apache Kafka that exists. Nothing is written.",
)


class Output(StrEnum):
    """What is printed: lines for people, or JSON for programs."""

    TEXT = "text"
    JSON = "json"


@app.callback()
def kafka() -> None:
    """Check the controllers of an Apache Kafka that exists. Nothing is written."""


@app.command("advise")
def advise_command(
    bootstrap: Annotated[
        str, typer.Option(help="Addresses of all controllers: host:port, separated by commas.")
    ],
    id_map: Annotated[
        str,
        typer.Option(
            help="The controllers that there should be: id@host:port[:directoryId], separated by "
            "commas; unset: the current voters."
        ),
    ] = "",
    cluster_id: Annotated[
        str | None, typer.Option(help="Refuse controllers of another cluster.")
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option(help="Kafka's client properties with TLS and SASL, certificates as PEM."),
    ] = None,
    timeout_s: Annotated[
        float, typer.Option(help="Of each connection and request.", min=0.1, max=300)
    ] = 5.0,
    confirm_s: Annotated[
        float, typer.Option(help="How long to wait for a majority.", min=0.1, max=300)
    ] = 5.0,
    grace_s: Annotated[
        int, typer.Option(help="Silence after which a voter is replaced.", min=0, max=86_400)
    ] = 300,
    output: Annotated[Output, typer.Option(help="What to print.")] = Output.TEXT,
) -> None:
    """Say whether a controller may be lost or replaced, and what the operator would do."""
    try:
        wanted = parse_id_map(id_map)
        addresses = parse_bootstrap(bootstrap)
        target = Target(
            tuple(dict.fromkeys((*addresses, *(controller.address for controller in wanted)))),
            {controller.address: controller.node_id for controller in wanted},
            read_security(command_config),
            timeout_s,
            confirm_s,
        )
    except SettingsError as error:
        typer.echo(f"kraftquorum-operator: {error}", err=True)
        raise typer.Exit(AdviseExitCode.USAGE) from error
    view = asyncio.run(query(target))
    raise typer.Exit(
        _print(view, wanted, cluster_id, Limits(grace_ms=grace_s * 1000), output=output)
    )


def _print(
    view: View,
    wanted: tuple[MappedController, ...],
    cluster_id: str | None,
    limits: Limits,
    *,
    output: Output,
) -> AdviseExitCode:
    """Print the judgement; returns the exit code."""
    outcome = judge(view, wanted, cluster_id, limits).outcome
    if isinstance(outcome, Refusal):
        if output is Output.JSON:
            typer.echo(json.dumps({"refused": outcome.code.name, "reason": outcome.text}))
        typer.echo(f"kraftquorum-operator: {outcome.code.name}: {outcome.text}", err=True)
        return outcome.code
    quorum, advice = view.confirmed_quorum, outcome
    if output is Output.JSON:
        typer.echo(json.dumps(report.document(view, quorum, advice), indent=2))
    else:
        for line in report.lines(view, quorum, advice):
            typer.echo(line)
    return exit_code(advice)


def exit_code(advice: Advice) -> AdviseExitCode:
    """The exit code of a confirmed judgement."""
    if not advice.safe:
        return AdviseExitCode.AT_RISK
    return AdviseExitCode.SAFE if advice.kind is Kind.NOTHING else AdviseExitCode.ACTION
