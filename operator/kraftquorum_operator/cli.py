"""`kraftquorum-operator run`, `crds print` and `kafka advise`."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Annotated

import structlog
import typer

from kraftquorum_operator.errors import SettingsError
from kraftquorum_operator.kafka.command import app as kafka
from kraftquorum_operator.settings import load_settings
from raftnode.core_dumps import forbid_core_dumps

log: structlog.stdlib.BoundLogger = structlog.get_logger("kraftquorum_operator")

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Run and repair Raft quorums on Kubernetes.",
)
crds = typer.Typer(no_args_is_help=True, help="The CustomResourceDefinition.")
app.add_typer(crds, name="crds")
app.add_typer(kafka, name="kafka")


@app.command()
def run(
    namespace: Annotated[
        str | None,
        typer.Option(help="Namespaces to watch, separated by commas; unset: all."),
    ] = None,
    kubeconfig: Annotated[
        str | None, typer.Option(help="Kubeconfig file; unset: the pod's service account.")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Port of /metrics; 0: none.", min=0, max=65535)
    ] = None,
    log_format: Annotated[str | None, typer.Option(help="json or text.")] = None,
) -> None:
    """Run the operator. The KRAFTQUORUM_* variables have all other settings."""
    try:
        settings = load_settings(
            namespace=namespace,
            kubeconfig=kubeconfig,
            metrics_port=metrics_port,
            log_format=log_format,
        )
        if settings.kubeconfig is not None:
            # kopf's login reads it when the Kubernetes client is first imported.
            os.environ["KUBECONFIG"] = settings.kubeconfig
        from kraftquorum_operator.app import serve  # noqa: PLC0415 - after KUBECONFIG is set
        from kraftquorum_operator.logs import configure_logging  # noqa: PLC0415

        configure_logging(settings.log_format, settings.log_level)
        if problem := forbid_core_dumps():
            log.warning("core_dumps_allowed", problem=problem)
        asyncio.run(serve(settings))
    except SettingsError as error:
        typer.echo(f"kraftquorum-operator: {error}", err=True)
        raise typer.Exit(2) from error


@crds.command("print")
def print_crds(
    *,
    kafka_advice: Annotated[
        bool, typer.Option("--kafka-advice", help="Print that of KafkaQuorums, too.")
    ] = False,
) -> None:
    """Print the CustomResourceDefinition as YAML, for `kubectl apply -f -`."""
    from kraftquorum_operator.model import crd  # noqa: PLC0415 - quick start of `run`

    sys.stdout.write(crd.render())
    if kafka_advice:
        sys.stdout.write(f"---\n{crd.render(crd.KAFKA_QUORUM)}")


def main() -> None:
    """Entry point."""
    app()
