"""How Spark's Java is started without a shell: the commands, word for word."""

import os
import stat
import subprocess
import sys

import pytest

from kraftquorum_pipeline.launch import (
    EXECUTOR,
    LaunchError,
    driver_arguments,
    executor_command,
    java_modules,
    parse_launcher,
    spark_home,
    submit_command,
    submit_environment,
    without_missing_modules,
)

POD = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver-svc.ns.svc:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1g",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "audit-exec-3",
    "SPARK_JAVA_OPT_10": "-Dlast=yes",
    "SPARK_JAVA_OPT_2": "-Dsecond=a b",
    "SPARK_JAVA_OPT_0": "--add-modules=jdk.incubator.vector",
    "SPARK_JAVA_OPTS": "-Dnot=one",
    "SPARK_CLASSPATH": ":/opt/spark/jars/*",
}


@pytest.fixture
def home(tmp_path):
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    return tmp_path / "spark"


@pytest.fixture
def java_home(tmp_path):
    """A Java that has one module, and a program that does as Spark's launcher does."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="21"\nMODULES="java.base java.sql"\n')
    program = home / "bin" / "java"
    program.write_text(
        f"#!{sys.executable}\n"
        "import os, sys\n"
        "print('a warning')\n"
        "words = ['java', '--add-modules=jdk.incubator.vector', *sys.argv[5:], os.environ['SPARK_HOME']]\n"
        "sys.stdout.write('\\0\\n' + ''.join(word + '\\0' for word in words))\n"
        "sys.exit('fail' in sys.argv)\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return home


def test_executor_is_told_what_its_pod_says(home):
    command = executor_command({**POD, "SPARK_HOME": str(home), "JAVA_HOME": "/java"})
    assert command == [
        *["/java/bin/java", "--add-modules=jdk.incubator.vector", "-Dsecond=a b", "-Dlast=yes"],
        *["-Xms1g", "-Xmx1g", "-cp", f"/opt/spark/jars/*:{home}/jars/*", EXECUTOR],
        *["--driver-url", POD["SPARK_DRIVER_URL"], "--executor-id", "3", "--cores", "2"],
        *["--app-id", "spark-1", "--hostname", "10.0.0.7", "--resourceProfileId", "0"],
        *["--podName", "audit-exec-3"],
    ]


@pytest.mark.parametrize("missing", [*list(POD)[:8]])
def test_executor_outside_of_its_pod_says_what_is_not_set(home, missing):
    environment = {**POD, "SPARK_HOME": str(home), missing: ""}
    with pytest.raises(LaunchError, match=f"{missing} is not set"):
        executor_command(environment)


def test_driver_is_a_submission_in_client_mode_at_its_pods_address():
    given = ["--properties-file", "/opt/spark/conf/spark.properties", "local:///app.py", "export"]
    assert driver_arguments(given, {"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.5"}) == [
        *["--conf", "spark.driver.bindAddress=10.0.0.5"],
        *["--conf", "spark.executorEnv.SPARK_DRIVER_POD_IP=10.0.0.5"],
        *["--deploy-mode", "client"],
        *given,
    ]
    with pytest.raises(LaunchError, match="SPARK_DRIVER_BIND_ADDRESS is not set"):
        driver_arguments(given, {})


def test_submission_becomes_what_sparks_launcher_says_less_what_this_java_lacks(home, java_home):
    environment = {**os.environ, "SPARK_HOME": str(home), "JAVA_HOME": str(java_home)}
    words = ["--conf", "a=b c", "", "app.py"]
    command = submit_command(words, environment)
    assert command == ["java", "org.apache.spark.deploy.SparkSubmit", *words, str(home)]
    with pytest.raises(LaunchError, match="exited with 1"):
        submit_command(["fail"], environment)


def test_output_without_a_command_is_refused():
    assert parse_launcher(b"said\n\0\njava\0-cp\0\0") == ["java", "-cp", ""]
    for output in (b"", b"said\n", b"\0\n", b"java\0-cp\0"):
        with pytest.raises(LaunchError, match="printed no command"):
            parse_launcher(output)


def test_modules_are_left_out_only_where_it_is_known_that_they_are_missing(java_home, tmp_path):
    modules = java_modules({"JAVA_HOME": str(java_home)})
    assert modules == {"java.base", "java.sql"}
    asked = ["java", "--add-modules=java.sql,jdk.incubator.vector", "--add-modules=ALL-SYSTEM", "x"]
    kept = ["java", "--add-modules=java.sql", "--add-modules=ALL-SYSTEM", "x"]
    assert without_missing_modules(asked, modules) == kept
    assert without_missing_modules(["--add-modules=jdk.x"], modules) == []
    for unknown in ({}, {"JAVA_HOME": str(tmp_path)}):
        assert without_missing_modules(asked, java_modules(unknown)) == asked


def test_environment_is_that_of_sparks_scripts_and_what_is_set_stays(home):
    found = submit_environment({"SPARK_CONF_DIR": "/conf", "X": "1"}, home)
    assert found == {
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": "/conf",
        "SPARK_SCALA_VERSION": "2.13",
        "X": "1",
        "SPARK_ENV_LOADED": "1",
        "PYTHONHASHSEED": "0",
    }


def test_home_without_jars_is_refused(tmp_path):
    with pytest.raises(LaunchError, match="has no jars: set SPARK_HOME to a Spark installation"):
        spark_home({"SPARK_HOME": str(tmp_path)})


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_entry_point_outside_of_a_pod_ends_with_a_line(role, home):
    environment = {"SPARK_HOME": str(home), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-m", "kraftquorum_pipeline.launch", role]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "is not set: Spark on Kubernetes sets it in its pods" in done.stderr
    assert "Traceback" not in done.stderr
