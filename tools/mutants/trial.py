"""Try mutants in forks of one pytest session: the tests are collected once, not for each mutant.

First all tests run without a mutant, in a fork of their own. That must be clean, and says how
long each test takes and which lines of the core it runs. Then each mutant gets a fork, in which
the code of one function is replaced, and the tests run that come to what it changed
(changed_lines.py), the fastest first, until one fails. The session itself runs no test, so that
every fork begins with the same untouched modules.

The process has one thread, which makes forks safe here.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType

import coverage
import pytest

KILLED, SURVIVED, NO_TESTS = 1, 0, 33
"""Exit codes as mutmut keeps them; a signal that ended a mutant is kept as its negative number."""
STOPPED = {-signal.SIGKILL, -signal.SIGTERM}
"""Says nothing of a mutant: one that takes too long gets SIGXCPU."""
MEMORY_MAX = 2 << 30
"""Bytes of address space beyond which a mutant that gathers without end is stopped."""
SAVE_SECONDS = 10.0


@dataclass(frozen=True)
class Mutant:
    """One fault: a function and the code that it is to have instead."""

    name: str
    module: Path
    lines: frozenset[int]
    """Of the module: a test that runs none of them cannot notice it."""
    functions: tuple[FunctionType, FunctionType]
    """The one that everybody calls, and the one whose code it is to have."""
    also: tuple[Mutant, ...] = ()
    """Further functions that break together with this one."""

    def put_in_place(self) -> None:
        """Break the function, for everybody who has got hold of it."""
        for other in self.also:
            other.put_in_place()
        function, fault = self.functions
        function.__code__ = fault.__code__
        function.__defaults__ = fault.__defaults__
        function.__kwdefaults__ = fault.__kwdefaults__


@dataclass
class Reach:
    """What each test costs and comes to."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    """Of processor time, by the test's id."""
    tests: dict[str, dict[int, list[str]]] = field(default_factory=dict[str, dict[int, list[str]]])
    """By module and line."""

    def of(self, mutant: Mutant) -> list[str]:
        """Return the tests that may notice a mutant, the fastest first."""
        tests: set[str] = set()
        for part in (mutant, *mutant.also):
            lines = self.tests.get(str(part.module.absolute()), {})
            tests |= {test for line in part.lines for test in lines.get(line, []) if test}
        return sorted(tests, key=lambda test: (self.seconds[test], test))


class Trial:
    """A pytest plugin: what it is given to try is tried instead of the session's tests."""

    def __init__(
        self,
        names: list[str],
        load: Callable[[str], Mutant],
        decided: Callable[[Mutant, int], None],
        save: Callable[[], None],
        *,
        jobs: int,
        seconds_max: float,
    ) -> None:
        """Call `load` once the tests are collected; tell `decided` of each exit code."""
        self.names = names
        self.load = load
        self.decided = decided
        self.save = save
        self.jobs = jobs
        self.until = time.monotonic() + seconds_max
        self.counts = Counter[int]()
        self._running: dict[int, Mutant] = {}
        self._in_mutant = False

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure the tests, then try every mutant. Raises if a test fails without a mutant."""
        if session.testsfailed or not session.items:
            raise session.Failed("the tests could not be collected")
        print(f"{len(session.items)} tests, {len(self.names)} mutants to try", flush=True)
        items = {item.nodeid: item for item in session.items}
        gc.freeze()
        reach = self._measure(session)
        print(f"tests without a mutant: {sum(reach.seconds.values()):.1f} s", flush=True)
        saved = time.monotonic()
        try:
            for name in self.names:
                if time.monotonic() > self.until:
                    break
                mutant = self.load(name)
                tests = [items[test] for test in reach.of(mutant)]
                if not tests:
                    self._note(mutant, NO_TESTS)
                    continue
                self._start(mutant, tests, sum(reach.seconds[item.nodeid] for item in tests))
                while len(self._running) >= self.jobs:
                    self._wait()
                if time.monotonic() - saved > SAVE_SECONDS:
                    self.save()
                    print(
                        f"{self.counts.total()} of {len(self.names)}: {self._summary()}", flush=True
                    )
                    saved = time.monotonic()
            while self._running:
                self._wait()
        finally:
            for child in self._running:
                os.kill(child, signal.SIGKILL)
            self.save()
        print(f"{self.counts.total()} of {len(self.names)}: {self._summary()}", flush=True)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """End a mutant's fork with the first failure, before pytest writes a report of it."""
        if self._in_mutant and call.excinfo is not None:
            expected = isinstance(call.excinfo.value, pytest.skip.Exception)
            if not expected and item.get_closest_marker("xfail") is None:
                os._exit(KILLED)
        return (yield)

    def _summary(self) -> str:
        noticed = self.counts.total() - self.counts[SURVIVED] - self.counts[NO_TESTS]
        return f"{noticed} noticed, {self.counts[SURVIVED]} survived, {self.counts[NO_TESTS]} bare"

    def _measure(self, session: pytest.Session) -> Reach:
        """Run every test in a fork that records lines; it tells what it saw through a file."""
        reach_file = Path("reach.json")
        reach_file.unlink(missing_ok=True)
        child = os.fork()  # noqa: TID251
        if child == 0:
            _silence()
            reach_file.write_text(json.dumps(_record(session)), encoding="utf-8")
            os._exit(session.testsfailed != 0)
        _, status = os.waitpid(child, 0)
        if status != 0:
            raise session.Failed("tests fail, or cannot be measured, without a mutant")
        seconds, tests = json.loads(reach_file.read_text(encoding="utf-8"))
        lines = {
            path: {int(line): tests_of_line for line, tests_of_line in by_line.items()}
            for path, by_line in tests.items()
        }
        return Reach(seconds, lines)

    def _start(self, mutant: Mutant, tests: list[pytest.Item], seconds: float) -> None:
        sys.stdout.flush()
        child = os.fork()  # noqa: TID251
        if child != 0:
            self._running[child] = mutant
            return
        code = KILLED
        try:
            self._try(mutant, tests, seconds)
            code = SURVIVED
        finally:  # whatever a fault raises, the fork must not go on in the session's place
            os._exit(code)

    def _try(self, mutant: Mutant, tests: list[pytest.Item], seconds: float) -> None:
        self._in_mutant = True
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        limit = int(3 * seconds) + 10
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
        _silence()
        mutant.put_in_place()
        _run(tests)

    def _wait(self) -> None:
        child, status = os.wait()
        mutant, code = self._running.pop(child), os.waitstatus_to_exitcode(status)
        if code in STOPPED:
            print(f"stopped from outside, to be tried again: {mutant.name}", flush=True)
        else:
            self._note(mutant, code)

    def _note(self, mutant: Mutant, code: int) -> None:
        self.counts[code] += 1
        self.decided(mutant, code)


def _silence() -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def _run(items: list[pytest.Item]) -> None:
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def _record(session: pytest.Session) -> tuple[dict[str, float], dict[str, dict[int, list[str]]]]:
    modules = Path("raftnode/core").absolute()
    watch = coverage.Coverage(data_file=None, config_file=False, include=[f"{modules}/*"])
    seconds: dict[str, float] = {}
    watch.start()
    for item, following in zip(session.items, [*session.items[1:], None], strict=True):
        watch.switch_context(item.nodeid)
        since = time.process_time()
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        seconds[item.nodeid] = time.process_time() - since
    watch.stop()
    data = watch.get_data()
    return seconds, {path: data.contexts_by_lineno(path) for path in data.measured_files()}
