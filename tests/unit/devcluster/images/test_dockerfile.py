"""What the Dockerfile must keep to, whatever the edit; no engine is needed."""

import re
from pathlib import Path

import pytest

from kraftquorum_devcluster.images.inputs import PIPELINE_INPUTS, input_files, source_root

ROOT = Path(__file__).parents[4]
TEXT = (ROOT / "Dockerfile").read_text()


def stages():
    """Instructions of each stage, by its name: continued lines joined, comments dropped."""
    code = "\n".join(line for line in TEXT.splitlines() if not line.startswith("#"))
    found, name = {}, None
    for line in re.sub(r"\\\n\s*", " ", code).splitlines():
        if match := re.fullmatch(r"FROM (\S+) AS (\S+)", line):
            name = match.group(2)
            found[name] = [("FROM", match.group(1))]
        elif line.strip() and name is not None:
            found[name].append(tuple(line.split(" ", 1)))
    return found


STAGES = stages()
FINAL = ("runtime", "node", "operator", "pipeline")


def values(stage, instruction):
    return [value for word, value in STAGES[stage] if word == instruction]


def test_images_start_from_nothing_and_run_nothing_while_built():
    assert values("runtime", "FROM") == ["scratch"]
    for stage in FINAL:
        assert not values(stage, "RUN"), "there is no shell to run it"
        for source in values(stage, "COPY"):
            assert source.startswith("--from="), "the source tree is never copied into an image"


def test_user_is_a_number_and_not_root():
    assert values("runtime", "USER") == ["10001:10001"]
    assert not values("node", "USER")
    assert not values("operator", "USER")
    assert not values("pipeline", "USER")


@pytest.mark.parametrize(
    ("stage", "program"), [("node", "raftnode"), ("operator", "kraftquorum-operator")]
)
def test_program_is_started_without_a_shell(stage, program):
    assert values(stage, "ENTRYPOINT") == [f'["{program}"]']
    assert values(stage, "CMD") == ['["run"]']


def test_pipelines_program_is_what_spark_on_kubernetes_calls():
    assert values("pipeline", "ENTRYPOINT") == ['["python3", "-m", "kraftquorum_pipeline.launch"]']


@pytest.mark.parametrize("stage", ["node", "operator", "pipeline"])
def test_labels_say_what_it_is_and_come_last_so_that_a_new_version_builds_nothing(stage):
    label = values(stage, "LABEL")[0]
    for key in ("title", "description", "licenses", "version", "revision"):
        assert f"org.opencontainers.image.{key}=" in label
    words = [word for word, _ in STAGES[stage]]
    assert words[-3:] == ["ARG", "ARG", "LABEL"]


def test_nothing_depends_on_the_architecture():
    tool = (ROOT / "tools/collect_runtime.py").read_text()
    for name in ("x86_64", "amd64", "aarch64", "arm64", "--platform"):
        assert name not in TEXT
        assert name not in tool


def test_no_address_of_a_registry_is_written_down():
    assert not re.search(r"https?://|--index-url|--extra-index|--trusted-host", TEXT)
    for name in ("build", "java", "node", "operator", "pipeline"):
        text = (ROOT / f"requirements/{name}.txt").read_text()
        assert not re.search(r"https?://|^--(?!hash)", text, re.MULTILINE)


def test_every_install_checks_hashes():
    installs = [
        part
        for stage in STAGES
        for value in values(stage, "RUN")
        for part in value.split("&&")
        if "pip" in part and " install " in part and "apt-get" not in part
    ]
    assert len(installs) == 7
    for command in installs:
        assert "--require-hashes" in command or "--no-index" in command


def versions(name):
    lines = (ROOT / f"requirements/{name}.txt").read_text().splitlines()
    found = (re.match(r"([\w.-]+)==([^ ;]+)", line) for line in lines)
    return {match.group(1): match.group(2) for match in found if match}


def test_node_carries_neither_kopf_nor_the_client_and_the_operator_no_kafka_schemas():
    assert {"kopf", "kubernetes"} <= set(versions("operator"))
    assert not {"kopf", "kubernetes"} & set(versions("node"))
    assert "kio" in versions("node")
    assert not {"kio", "crc32c"} & set(versions("operator"))


def test_images_carry_the_versions_that_are_tested():
    tested = versions("dev")
    for name in ("build", "node", "operator", "pipeline"):
        for package, version in versions(name).items():
            assert tested.get(package, version) == version, package
    missing = set(versions("node")) | set(versions("operator"))
    assert missing - set(tested) <= {"colorama"}, "only for another system"


def test_each_target_copies_its_own_requirements_and_packages():
    assert "requirements/node.txt requirements/" in values("node-files", "COPY")
    assert "operator operator" not in values("node-files", "COPY")
    assert "requirements/operator.txt requirements/" in values("operator-files", "COPY")
    everything = [value for stage in STAGES for value in values(stage, "COPY")]
    assert not any("devcluster" in value for value in everything)
    wanted = "requirements/pipeline.txt requirements/java.txt requirements/"
    assert wanted in values("pipeline-files", "COPY")
    assert not any("operator" in value for value in values("pipeline-files", "COPY"))


def test_hash_covers_all_that_is_copied():
    copied = {
        name
        for stage in STAGES
        for value in values(stage, "COPY")
        if not value.startswith("--from=")
        for name in value.split()[:-1]
    }
    assert copied <= set(PIPELINE_INPUTS)
    assert set(PIPELINE_INPUTS) - copied == {".dockerignore", "Dockerfile"}


def test_context_is_what_is_copied_and_nothing_else():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert "*" in lines
    needed = {name for name in PIPELINE_INPUTS if name not in {".dockerignore", "Dockerfile"}}
    for name in needed:
        assert name in allowed or name.split("/")[0] in allowed, name
    assert "**/__pycache__" in lines


def test_sources_are_found_from_the_package():
    assert source_root() == ROOT
    assert ROOT / "Dockerfile" in input_files(ROOT)
