"""What a person sees while the demo runs: live on a terminal, lines of each change without one."""

from collections.abc import Callable
from typing import Protocol

from rich.console import Console

from .demo_state import DemoState

Clock = Callable[[], float]


class View(Protocol):
    """Is called for each thing that happens, and to draw several times a second."""

    def start(self) -> None:
        """Begin to show."""

    def stop(self) -> None:
        """Leave the terminal as it was; what was said stays."""

    def step(self, number: int, title: str, why: str) -> None:
        """A step begins."""

    def say(self, text: str) -> None:
        """Something changed."""

    def tell(self, text: str = "") -> None:
        """A line that is not an event of its own: a command, a table, a result."""

    def draw(self) -> None:
        """Show the newest state."""


class PlainView:
    """Lines, each with the time since the start; for CI and files."""

    def __init__(self, console: Console, state: DemoState, clock: Clock) -> None:
        self._console = console
        self._state = state
        self._clock = clock

    def start(self) -> None:
        """See `View`."""

    def stop(self) -> None:
        """See `View`."""

    def step(self, number: int, title: str, why: str) -> None:
        """See `View`."""
        self.tell()
        self.tell(f"{number}/{self._state.steps_total} {title}")
        self.tell(f"    {why}")

    def say(self, text: str) -> None:
        """See `View`."""
        self.tell(f"{self._clock():7.1f} s  {text}")

    def tell(self, text: str = "") -> None:
        """See `View`."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def draw(self) -> None:
        """See `View`; changes have been said already."""


def make_view(console: Console, state: DemoState, clock: Clock) -> View:
    """The kind that suits the console."""
    if console.is_terminal and not console.is_dumb_terminal:
        from .rich_view import RichView  # noqa: PLC0415 - only where there is a terminal

        return RichView(console, state, clock)
    return PlainView(console, state, clock)
