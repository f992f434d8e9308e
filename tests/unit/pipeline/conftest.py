"""A quorum's files, made once by the node's own storage, and copied for each test to damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kraftquorum_pipeline.audit.engine import LocalEngine
from kraftquorum_pipeline.audit.findings import Verdict
from kraftquorum_pipeline.audit.replica_files import find_replicas
from kraftquorum_pipeline.audit.run import Audit
from proofkit.replicadirs import copy_quorum, quorum_history, write_quorum


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_quorum(tmp_path_factory.mktemp("pristine"), quorum_history())


@pytest.fixture
def quorum(pristine: list[Path], tmp_path: Path) -> list[Path]:
    return copy_quorum(pristine, tmp_path)


@pytest.fixture
def audit() -> Callable[..., Verdict]:
    def run(paths: list[Path], committed: int | None = None) -> Verdict:
        return Audit(find_replicas(paths), LocalEngine(), committed).run()

    return run
