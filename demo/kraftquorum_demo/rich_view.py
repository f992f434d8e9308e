"""The live picture on a terminal: what happened scrolls by above it."""

from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from .demo_state import DemoState, Figures, rows

_ROWS = 6
"""The table keeps its height, so that the picture does not jump."""
_STALL_SHOWN_S = 0.5
_ROLE_STYLES = {"leader": "bold green", "voter": "cyan", "observer": "yellow"}


class RichView:
    """See `view.View`."""

    def __init__(self, console: Console, state: DemoState, clock: Callable[[], float]) -> None:
        self._console = console
        self._state = state
        self._clock = clock
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._step = ""

    def start(self) -> None:
        """See `View`."""
        self._live.start()

    def stop(self) -> None:
        """See `View`."""
        self._live.stop()

    def step(self, number: int, title: str, why: str) -> None:
        """See `View`."""
        self._step = f"{number}/{self._state.steps_total} {title}"
        self._console.print()
        self._console.print(Text(self._step, style="bold"))
        self._console.print(Text(f"    {why}", style="dim"))

    def say(self, text: str) -> None:
        """See `View`."""
        style = "dim" if text.startswith("operator: ") else ""
        line = Text(f"{self._clock():7.1f} s  ", style="dim")
        self._console.print(line.append(text, style=style or "default"))

    def tell(self, text: str = "") -> None:
        """See `View`."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def draw(self) -> None:
        """See `View`."""
        self._live.update(self._picture(), refresh=True)

    def _picture(self) -> RenderableType:
        state = self._state
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="ellipsis", no_wrap=True)
        for name, text in (
            ("leader", self._leader()),
            ("operator", Text(state.resource.doing)),
            ("writes", self._writes()),
        ):
            grid.add_row(name, text)
        title = f"{self._step or 'starting'}  ·  {self._clock():.0f} s"
        return Panel(Group(grid, self._replicas()), title=title, title_align="left")

    def _leader(self) -> Text:
        quorum = self._state.quorum
        if quorum is None:
            return Text("no leader", style="bold red")
        text = Text(f"{quorum.leader.node_id} ", style="bold green")
        text.append(f"storage {quorum.leader.directory_id}", style="green")
        return text.append(f"  epoch {quorum.epoch}  committed to {quorum.high_watermark}", "dim")

    def _writes(self) -> Text:
        now = Figures.of(self._state.record, self._clock())
        text = Text(f"{now.acknowledged} acknowledged", style="bold")
        text.append(f"  {now.unknown} unknown", style="yellow" if now.unknown else "dim")
        text.append(f"  {now.refused} refused", style="yellow" if now.refused else "dim")
        text.append(f"  longest stall {now.longest.seconds:.2f} s", style="dim")
        if now.stalled_s > _STALL_SHOWN_S:
            text.append(f"  stalled for {now.stalled_s:.1f} s", style="bold red")
        return text

    def _replicas(self) -> Table:
        table = Table(box=None, padding=(0, 2), header_style="dim")
        for column in ("node", "directory id", "role"):
            table.add_column(column, no_wrap=True)
        table.add_column("lag", justify="right")
        table.add_column("", style="dim", no_wrap=True)
        replicas = rows(self._state.quorum)
        for row in replicas:
            style = _ROLE_STYLES[row.role]
            cells = (str(row.replica_id.node_id), row.replica_id.directory_id, row.role)
            table.add_row(*(Text(cell, style=style) for cell in cells), str(row.lag), row.note)
        for _ in range(_ROWS - len(replicas)):
            table.add_row()
        return table
