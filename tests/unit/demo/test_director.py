"""When the demo's clock begins."""

import contextlib
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from rich.console import Console

from kraftquorum_demo import director
from kraftquorum_demo.director import Director
from kraftquorum_demo.plan import SHORT
from kraftquorum_demo.stage import Places, Stage
from kraftquorum_devcluster.errors import StartError

BUILD_S = 325.0


def test_times_begin_after_the_first_build(tmp_path, monkeypatch):
    """A first run compiled for five minutes, and its first line and its picture began at 325 s."""
    now_s = 1000.0
    monkeypatch.setattr(director, "time", SimpleNamespace(monotonic=lambda: now_s))
    begun: list[float] = []

    class Built:
        places = Places(tmp_path, Path("quorum.yaml"), Path("crds.yaml"))
        seconds: ClassVar[dict[str, float]] = {}

        def prepare(self) -> None: ...

        def stop(self) -> None: ...

        def build(self) -> None:
            nonlocal now_s
            now_s += BUILD_S

        def start_cluster(self) -> None:
            begun.append(directed._clock())
            raise StartError("the API server", "not here")

        @contextlib.contextmanager
        def timed(self, _: str) -> Any:
            yield

    console = Console(file=io.StringIO())
    directed = Director(cast("Stage", Built()), SHORT, console, hold=False)
    monkeypatch.setattr(director.Finale, "keep", lambda _: None)
    with pytest.raises(StartError):
        directed.direct()
    assert begun == [0.0]
