"""Starts Spark's Java without a shell, as the entry point of the image `pipeline`.

Spark comes with scripts for bash, and the image has no shell. This module replaces two scripts:
`spark-submit`, which PySpark calls for its own session, and the entry point that Spark on
Kubernetes calls with `driver` or `executor`. It runs all other arguments as a command of
`kraftquorum-pipeline`.

Spark's requirements for an image are in "Running Spark on Kubernetes" (Docker Images) and in the
environment that it sets in its pods; the names here are Spark's.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

SUBMIT = "org.apache.spark.deploy.SparkSubmit"
EXECUTOR = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"

_LAUNCHER = "org.apache.spark.launcher.Main"
_BEGIN = b"\0\n"
"""The launcher's line before the command; the lines above it are for people."""

_FLAGS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
"""The arguments of an executor, and the variable of its pod that holds each."""

_JAVA_OPTION = re.compile(r"SPARK_JAVA_OPT_(\d+)")


class LaunchError(Exception):
    """Java cannot be started; the message says what is missing."""


def spark_home(environment: Mapping[str, str]) -> Path:
    """Return Spark's directory: SPARK_HOME, else the package `pyspark`.

    Raises:
        LaunchError: there is none.
    """
    named = environment.get("SPARK_HOME")
    if named is None:
        import pyspark  # noqa: PLC0415 - only if the environment does not say it

        named = str(Path(pyspark.__file__).parent)
    if not (Path(named) / "jars").is_dir():
        raise LaunchError(f"{named} has no jars: set SPARK_HOME to a Spark installation")
    return Path(named)


def java_program(environment: Mapping[str, str]) -> str:
    """The Java to start."""
    home = environment.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def submit_environment(environment: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return the environment that Spark's scripts set for `spark-submit`."""
    known = {
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(home / "conf"),
        "SPARK_SCALA_VERSION": "2.13",
    }
    return {**known, **environment, "SPARK_ENV_LOADED": "1", "PYTHONHASHSEED": "0"}


def submit_command(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the command that Spark's launcher makes of the arguments of `spark-submit`.

    Raises:
        LaunchError: the launcher failed and printed the reason.
    """
    home = spark_home(environment)
    java = java_program(environment)
    asked = [java, "-Xmx128m", "-cp", f"{home}/jars/*", _LAUNCHER, SUBMIT, *arguments]
    done = subprocess.run(
        asked,
        env=submit_environment(environment, home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        raise LaunchError(f"Spark's launcher exited with {done.returncode}")
    return without_missing_modules(parse_launcher(done.stdout), java_modules(environment))


def parse_launcher(output: bytes) -> list[str]:
    """Read the command from the output of Spark's launcher.

    Raises:
        LaunchError: there is none.
    """
    _, begin, command = output.partition(_BEGIN)
    words = [os.fsdecode(word) for word in command.split(b"\0")][:-1]
    if not begin or not words:
        raise LaunchError(f"Spark's launcher printed no command: {output[:200]!r}")
    return words


def driver_arguments(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The arguments of `spark-submit` in a driver's pod.

    Raises:
        LaunchError: the pod is not a driver's.
    """
    address = _required(environment, "SPARK_DRIVER_BIND_ADDRESS")
    return [
        *["--conf", f"spark.driver.bindAddress={address}"],
        *["--conf", f"spark.executorEnv.SPARK_DRIVER_POD_IP={address}"],
        *["--deploy-mode", "client"],
        *arguments,
    ]


def executor_command(environment: Mapping[str, str]) -> list[str]:
    """The command of an executor's pod.

    Raises:
        LaunchError: the pod is not an executor's.
    """
    numbered = {
        int(match[1]): value
        for name, value in environment.items()
        if (match := _JAVA_OPTION.fullmatch(name))
    }
    memory = _required(environment, "SPARK_EXECUTOR_MEMORY")
    classes = [
        *filter(None, environment.get("SPARK_CLASSPATH", "").split(":")),
        *filter(None, environment.get("SPARK_EXTRA_CLASSPATH", "").split(":")),
        f"{spark_home(environment)}/jars/*",
    ]
    options = [numbered[number] for number in sorted(numbered)]
    command = [
        *[java_program(environment), *options, f"-Xms{memory}", f"-Xmx{memory}"],
        *["-cp", ":".join(dict.fromkeys(classes)), EXECUTOR],
    ]
    for flag, variable in _FLAGS.items():
        command += [flag, _required(environment, variable)]
    return without_missing_modules(command, java_modules(environment))


def java_modules(environment: Mapping[str, str]) -> frozenset[str] | None:
    """The modules of JAVA_HOME's Java by its file `release`; None: the file does not list them."""
    try:
        text = (Path(environment["JAVA_HOME"]) / "release").read_text(encoding="utf-8")
    except (KeyError, OSError):
        return None
    modules = re.search(r'^MODULES="([^"]*)"', text, re.MULTILINE)
    return None if modules is None else frozenset(modules[1].split())


def without_missing_modules(command: Sequence[str], modules: frozenset[str] | None) -> list[str]:
    """Leave out `--add-modules` of a module that this Java does not have.

    Spark asks for `jdk.incubator.vector`, with which its machine learning is quicker and without
    which a small Java does not start; nothing here uses it.
    """
    kept: list[str] = []
    for word in command:
        flag, equals, named = word.partition("=")
        if modules is None or flag != "--add-modules" or not equals:
            kept.append(word)
        elif there := [
            module for module in named.split(",") if module in modules or module.isupper()
        ]:
            kept.append(f"{flag}={','.join(there)}")
    return kept


def _required(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name)
    if not value:
        raise LaunchError(f"{name} is not set: Spark on Kubernetes sets it in its pods")
    return value


def _become(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    os.execvpe(command[0], list(command), dict(environment))  # noqa: S606 - no shell is the point


def submit(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run as `spark-submit`: the process becomes Spark's Java."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        command = submit_command(given, os.environ)
        _become(command, submit_environment(os.environ, spark_home(os.environ)))
    except (LaunchError, OSError) as error:
        sys.exit(f"spark-submit: {error}")


def main() -> None:
    """Run as the entry point of the image."""
    match sys.argv[1:]:
        case ["driver", *arguments]:
            try:
                wanted = driver_arguments(arguments, os.environ)
            except LaunchError as error:
                sys.exit(f"kraftquorum-pipeline: {error}")
            submit(wanted)
        case ["executor", *_]:
            try:
                _become(executor_command(os.environ), os.environ)
            except (LaunchError, OSError) as error:
                sys.exit(f"kraftquorum-pipeline: {error}")
        case _:
            from kraftquorum_pipeline.cli import main as commands  # noqa: PLC0415

            commands()


if __name__ == "__main__":
    main()
