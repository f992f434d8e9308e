"""The layout that the design promises, where no linter looks."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from raftnode import logformat

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "operator": "kraftquorum_operator",
    "raftnode": "raftnode",
    "pipeline": "kraftquorum_pipeline",
    "observability": "kraftquorum_observability",
    "proofkit": "proofkit",
    "devcluster": "kraftquorum_devcluster",
    "demo": "kraftquorum_demo",
    "bench": "kraftquorum_bench",
}

PRODUCT = {"kraftquorum_operator", "raftnode", "kraftquorum_pipeline"}


def test_no_top_level_folder_is_a_package():
    assert [str(p) for p in ROOT.glob("*/__init__.py")] == []


def test_the_wheel_contains_the_product_alone(tmp_path):
    """No proof kit, no development cluster, no demo: 15,000 lines that never run there."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        files = [name for name in archive.namelist() if ".dist-info/" not in name]
        scripts = next(name for name in archive.namelist() if name.endswith("entry_points.txt"))
        programs = re.findall(r"^([\w-]+) = (\w+)", archive.read(scripts).decode(), re.MULTILINE)
    assert {name.partition("/")[0] for name in files} == PRODUCT
    assert {package for _, package in programs} == PRODUCT
    assert [name for name in files if "testing" in name or "proof" in name] == []


def test_the_operator_folder_does_not_replace_the_standard_library():
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import operator; operator.itemgetter"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("folder", "package"), PACKAGES.items())
def test_each_package_lies_one_level_in_and_is_typed(folder, package):
    assert (ROOT / folder / package / "__init__.py").is_file()
    assert (ROOT / folder / package / "py.typed").is_file()


def test_the_core_has_no_sentences():
    """It names its reasons, and `raftnode.runtime.reason_sentences` words them (decision 40).

    `types.py` says what it cannot parse.
    """
    core = ROOT / "raftnode" / "raftnode" / "core"
    sentences = [
        f"{path.relative_to(core)}:{node.lineno}: {node.value}"
        for path in sorted(core.rglob("*.py"))
        if path.name != "types.py"
        for node in _texts(ast.parse(path.read_text()))
        if re.search(r"\w \w", node.value)
    ]
    assert sentences == []


def _texts(module):
    """The texts of a module but its docstrings, which are statements."""
    docstrings = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    for node in ast.walk(module):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in docstrings:
            yield node


def test_the_format_of_the_log_is_imported_by_its_public_names():
    """By the pipeline, the proof kit, the tools and the tests (decision 24)."""
    private = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in _code_around_the_node()
        for line, name in _imported_from_the_format(path)
        if not _may_import(str(path.relative_to(ROOT)), name)
    ]
    assert private == []


def _code_around_the_node():
    for folder in ("tests", "tools", *sorted(set(PACKAGES) - {"raftnode"})):
        yield from sorted((ROOT / folder).rglob("*.py"))


def _imported_from_the_format(path):
    text = path.read_text()
    if "raftnode.logformat" not in text:  # reading all the others takes seconds
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            if name.startswith("raftnode.logformat."):
                yield node.lineno, name


MAY_IMPORT_PRIVATE = (
    "tests/unit/raftnode/",
    "proofkit/proofkit/badrequests/",
    "proofkit/proofkit/fuzz/",
)
"""They test single modules of the format, or make bytes that no public name makes."""


def _may_import(path, name):
    """The public names; tests of the node, the fuzzer and the bad requests, private ones as well.

    Only the tests of the format import a public name from the module that they test.
    """
    if path.startswith("tests/unit/raftnode/logformat/"):
        return True
    public = name.rpartition(".")[2] in logformat.__all__
    if path.startswith(MAY_IMPORT_PRIVATE):
        return not public or name.count(".") == 2
    return public and name.count(".") == 2


def test_no_module_has_grown_past_what_can_be_read():
    lengths = {
        path.relative_to(ROOT): len(path.read_text().splitlines())
        for folder in PACKAGES
        for path in (ROOT / folder).rglob("*.py")
    }
    assert {path: length for path, length in lengths.items() if length > 600} == {}


@pytest.mark.parametrize(
    "name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "docs/tutorials/demo.md"]
)
def test_a_newcomer_finds(name):
    assert (ROOT / name).stat().st_size > 200


def test_no_requirement_names_a_registry():
    for path in (ROOT / "requirements").glob("*.txt"):
        text = path.read_text()
        assert "://" not in text
        assert "--hash=" in text


def test_links_between_pages_lead_somewhere():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


def _overviews():
    others = {"kraftquorum_observability", "kraftquorum_demo", "kraftquorum_bench", "proofkit"}
    for package in sorted(PRODUCT | others):
        for path in sorted(ROOT.glob(f"*/{package}/**/__init__.py")):
            text = ast.get_docstring(ast.parse(path.read_text())) or ""
            if "\n- `" in text:
                yield pytest.param(path, text, id=str(path.parent.relative_to(ROOT)))


def _modules(package: Path) -> set[str]:
    return {
        entry.stem
        for entry in package.iterdir()
        if (entry.suffix == ".py" or (entry / "__init__.py").exists())
        and not entry.stem.startswith("_")
    }


@pytest.mark.parametrize(("path", "text"), list(_overviews()))
def test_a_list_of_modules_names_each_module_and_no_other(path, text):
    modules = _modules(path.parent)
    assert {name for name in modules if not re.search(rf"\b{name}\b", text)} == set()
    heads = re.findall(r"(?m)(?:^- |; )((?:`\w+`(?: \(pure\))?(?:, )?)+):", text)
    listed = {name for head in heads for name in re.findall(r"`(\w+)`", head)}
    assert listed - modules == set()


def test_the_operator_needs_no_package_of_the_node_alone():
    """Its image has only its own extra; the client that it imports is the node's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    def names(*lists):
        return {re.split(r"[^\w-]", line, maxsplit=1)[0] for lines in lists for line in lines}

    extras = project["optional-dependencies"]
    others = names(extras["node"]) - names(extras["operator"], project["dependencies"])
    assert "crc32c" in others
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({sorted(others)}))\n"
        "import kraftquorum_operator.app, kraftquorum_operator.cli, raftnode.client\n"
        "from raftnode.client.exchange import AppendCall\n"
        "from raftnode.session.answers import Greeting\n"
        "call = AppendCall([b'a' * 99], lambda timeout_ms: None)\n"
        "print(call.for_session(Greeting(1000, 1000, 1000, 1))[0].name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "APPEND\n", done.stderr
