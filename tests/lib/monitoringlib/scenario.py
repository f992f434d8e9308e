"""A quorum's hard day with Prometheus watching: the demo's script, with rests between its steps.

Applied, written to, scaled up, scaled down with the leader killed in the middle, a follower's and
the leader's disk destroyed, and the leader's disk hung for a while, all while clients write. What
the demo proves about data it proves here, too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from kraftquorum_demo.credentials import APP, PROMETHEUS, REPORTS
from kraftquorum_demo.demo_state import DemoState
from kraftquorum_demo.environment import NAMESPACE, Environment, Places, locked
from kraftquorum_demo.history import Fault
from kraftquorum_demo.plan import Plan
from kraftquorum_demo.steps import DemoSteps
from kraftquorum_demo.task_groups import run_with_background
from kraftquorum_demo.view import PlainView
from kraftquorum_demo.watcher import Watcher
from kraftquorum_demo.writers import Writers
from kraftquorum_devcluster.apiclient import ApiClient
from kraftquorum_devcluster.files import remove_tree
from kraftquorum_observability.generate import ROOT
from monitoringlib.discovery import keep_current
from monitoringlib.programs import ensure
from monitoringlib.prometheus import Prometheus, configuration

PLAN = Plan(zones=60, linger_s=12.0, writes_per_s=60.0)
"""The rests are long enough for rates over some seconds to fall to what is normal again."""


@dataclass(slots=True)
class Course:
    """How it went, in Unix seconds.

    Attributes:
        namespace, quorum: of whom the series are.
        steps: title, begin and end of each step.
        faults: what was done to the quorum, and when.
    """

    namespace: str
    quorum: str
    began_s: float
    ended_s: float = 0.0
    steps: list[tuple[str, float, float]] = field(default_factory=list[tuple[str, float, float]])
    faults: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

    def step(self, words: str) -> tuple[float, float]:
        """Begin and end of the step whose title has these words."""
        return next((begin, end) for title, begin, end in self.steps if words in title)


Judge = Callable[[Prometheus, Course], Awaitable[None]]


def run(out: Path, judge: Judge, console: Console) -> None:
    """Run the demo's steps, and let the judge ask Prometheus before all ends.

    Args:
        out: folder for everything that it leaves.
        judge: asks.
        console: told of what happens.

    Raises:
        DemoError, DevClusterError: It did not go as it should.
    """
    program = ensure("prometheus")
    places = Places(
        out=out.absolute(),
        manifest=ROOT / "examples" / "demo.yaml",
        crds=ROOT / "crds" / "kraftquorums.yaml",
    )
    with locked(places.out):
        environment = Environment(places)
        environment.prepare()
        remove_tree(places.out / "prometheus")
        try:
            environment.build()
            environment.start_cluster()
            prometheus = Prometheus(
                program, places.out / "prometheus", places.owner, environment.host
            )
            asyncio.run(_watched(environment, prometheus, judge, console))
        finally:
            environment.stop()


async def _watched(
    environment: Environment, prometheus: Prometheus, judge: Judge, console: Console
) -> None:
    state, clock = DemoState(), time.monotonic
    view = PlainView(console, state, lambda: clock() - began_s)
    began_s = clock()
    course = Course(NAMESPACE, environment.name, time.time())
    async with AsyncExitStack() as stack:
        await environment.apply_crds(PLAN.start_s)
        stack.push_async_callback(environment.operator.stop)
        await environment.operator.start(PLAN.start_s)
        target = environment.operator.metrics_url.removeprefix("http://").partition("/")[0]
        pods = environment.places.out / "prometheus" / "pods.json"
        stack.push_async_callback(prometheus.stop)
        scraper = environment.client_files.credentials(PROMETHEUS)
        await prometheus.start(configuration(pods, target, scraper))
        api = ApiClient(
            environment.cluster.server_url, environment.cluster.token, environment.cluster.ca_file
        )
        api.open()
        stack.push_async_callback(api.close)
        watching = await stack.enter_async_context(environment.client(REPORTS))
        writing = await stack.enter_async_context(environment.client(APP))
        watcher = Watcher(watching, api, environment.resource_path, state, clock, view.say)
        writers = Writers(writing, state.record, PLAN, clock)
        demo_steps = DemoSteps(
            environment=environment,
            plan=PLAN,
            state=state,
            view=view,
            watcher=watcher,
            writers=writers,
            clock=clock,
        )

        async def script() -> None:
            try:
                await demo_steps.run()
            finally:
                offset_s = time.time() - clock()
                _note(course, state, offset_s)
            await judge(prometheus, course)

        await run_with_background(
            script(),
            environment.operator.watch(),
            watcher.run(),
            writers.write_on(),
            keep_current(api, pods),
        )


def _note(course: Course, state: DemoState, offset_s: float) -> None:
    course.ended_s = time.time()
    for step in state.history.steps:
        end_s = step.span.until_s if step.span.until_s is not None else step.span.from_s
        course.steps.append((step.title, step.span.from_s + offset_s, end_s + offset_s))
    faults: list[Fault] = state.history.faults
    course.faults = [(fault.title, fault.at_s + offset_s) for fault in faults]
