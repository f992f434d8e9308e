"""Makes the Spark session of every job, on this machine by default.

Under `spark-submit` the submission sets the master and the memory, and this module sets only
what the data source needs. A local session listens on the loopback address only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from kraftquorum_pipeline.datasource import register
from kraftquorum_pipeline.errors import NoJavaError

JAVA_LEAST = 17
LOCAL = "local[*]"
_VERSION = re.compile(r'version "(\d+)')

_ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # A Python worker must start within this time; on a busy machine 15 s are too short.
    "spark.python.authenticate.socketTimeout": "120s",
}
_LOCAL = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    "spark.ui.enabled": "false",
}


def java_program(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the Java that Spark starts.

    Raises:
        NoJavaError: there is none, or it is older than Spark needs.
    """
    home = environment.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None or not os.access(program, os.X_OK):
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no `java` in PATH"
        raise NoJavaError(
            f"Spark needs Java {JAVA_LEAST} or later, and none was found ({where}); on "
            "Debian: apt-get install openjdk-17-jre-headless"
        )
    done = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    version = _VERSION.search(done.stderr + done.stdout)
    if done.returncode or version is None or int(version[1]) < JAVA_LEAST:
        said = (done.stderr + done.stdout).strip().partition("\n")[0]
        raise NoJavaError(f"Spark needs Java {JAVA_LEAST} or later; {program} reports: {said}")
    return Path(program)


def spark_session(
    name: str = "kraftquorum-pipeline",
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Make the session, or return the one that this process has.

    Args:
        name: what Spark calls the job.
        master: Spark's master; None: the submission's, else this machine (`local[*]`).
        settings: Spark's own settings, which override the defaults.

    Raises:
        NoJavaError: there is no Java that Spark can use.
    """
    java_program()
    # Without it Spark starts the first python3 in PATH, which may not have this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    submitted = "SPARK_ENV_LOADED" in os.environ
    chosen = master or (None if submitted else LOCAL)
    wanted = dict(_ALWAYS)
    builder = SparkSession.builder.appName(name)
    if chosen is not None:
        builder = builder.master(chosen)
        if chosen.startswith("local"):
            wanted |= _LOCAL
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for key, value in {**wanted, **(settings or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    register(session)
    return session
