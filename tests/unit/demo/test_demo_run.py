"""When the demo's clock begins."""

import contextlib
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from rich.console import Console

from kraftquorum_demo import demo_run
from kraftquorum_demo.demo_run import DemoRun
from kraftquorum_demo.environment import Environment, Places
from kraftquorum_demo.plan import SHORT
from kraftquorum_devcluster.errors import StartError

BUILD_S = 325.0


def test_times_begin_after_the_first_build(tmp_path, monkeypatch):
    """A first run compiled for five minutes, and its first line and its picture began at 325 s."""
    now_s = 1000.0
    monkeypatch.setattr(demo_run, "time", SimpleNamespace(monotonic=lambda: now_s))
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
            begun.append(run._clock())
            raise StartError("the API server", "not here")

        @contextlib.contextmanager
        def timed(self, _: str) -> Any:
            yield

    console = Console(file=io.StringIO())
    run = DemoRun(cast("Environment", Built()), SHORT, console, hold=False)
    monkeypatch.setattr(demo_run.Conclusion, "keep", lambda _: None)
    with pytest.raises(StartError):
        run.execute()
    assert begun == [0.0]
