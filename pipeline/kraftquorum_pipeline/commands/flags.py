"""The groups of flags that several commands have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kraftquorum_pipeline.commands.common import pairs
from kraftquorum_pipeline.credential_options import CREDENTIALS
from kraftquorum_pipeline.errors import OptionError
from kraftquorum_pipeline.remote import path_of
from raftnode.credential_flags import NO_FLAGS, CredentialFlags

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class LogFlags:
    """The flags that name a log and the options of the data source."""

    path: Annotated[
        Path | None,
        typer.Option(
            "--path",
            parser=path_of,
            metavar="PATH|URI",
            help="Files: the data directory of a replica, or a directory that holds several of "
            "them.",
            show_default=False,
        ),
    ] = None
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            envvar="RAFTNODE_BOOTSTRAP_SERVER",
            metavar="HOST:PORT,…",
            help="Nodes: API endpoints of the quorum.",
            show_default=False,
        ),
    ] = None
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            metavar="NAME=VALUE",
            help="An option of the data source; may be given several times.",
            show_default=False,
        ),
    ] = None

    credentials: CredentialFlags = NO_FLAGS

    def options(self) -> dict[str, str]:
        """Return the options of the data source.

        Raises:
            OptionError: an option is not NAME=VALUE, or no flag names a log.
        """
        given = pairs("--option", self.option)
        if self.path is not None:
            # The source refuses both; a variable of the environment is no flag.
            given.setdefault("path", str(self.path.absolute()))
        elif self.bootstrap_server is not None and "path" not in given:
            given.setdefault("bootstrapServers", self.bootstrap_server)
        if "bootstrapServers" in given:
            for option, value in self._credentials():
                given.setdefault(option, value)
        if "path" not in given and "bootstrapServers" not in given:
            raise OptionError(
                "no log is given: give --path DIRECTORY or --bootstrap-server HOST:PORT,…"
            )
        return given

    def _credentials(self) -> Iterator[tuple[str, str]]:
        """The options that the flags of nodes stand for."""
        names = {**CREDENTIALS, "cluster_id": "clusterId"}
        for field, option in names.items():
            value = getattr(self.credentials, field)
            if value:
                yield option, "true" if value is True else str(value)


@dataclass(frozen=True, slots=True)
class SparkFlags:
    """The flags of a command's Spark session."""

    master: Annotated[
        str | None,
        typer.Option(
            "--master", help="URL of Spark's master.", show_default="spark-submit's, else local[*]"
        ),
    ] = None
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark.", show_default=False),
    ] = None

    def settings(self) -> dict[str, str]:
        """Return Spark's own settings.

        Raises:
            OptionError: a setting is not NAME=VALUE.
        """
        return pairs("--conf", self.conf)

    def session(self, command: str) -> SparkSession:
        """Make the session, or return the one that this process has.

        Raises:
            OptionError: a setting is not NAME=VALUE.
            NoJavaError: there is no Java that Spark can use.
        """
        from kraftquorum_pipeline.session import spark_session  # noqa: PLC0415 - needs PySpark

        return spark_session(f"kraftquorum {command}", master=self.master, settings=self.settings())
