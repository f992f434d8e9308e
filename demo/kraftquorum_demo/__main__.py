"""``python -m kraftquorum_demo``: the command line, signals, the exit code.

Exit codes: 0 every promise kept; 1 a promise broken or a step failed; 2 it could not
begin; 130 stopped by a signal. However it ends, no process of it stays: the cluster and
the operator die with this process even if it is killed.
"""

import argparse
import sys
from pathlib import Path

import structlog
from rich.console import Console

from kraftquorum_devcluster.errors import DevClusterError

from .demo_run import DemoRun, catch_signals
from .environment import Environment, Places, locked
from .errors import DemoError, SetupError
from .plan import FULL, SHORT

_PLAIN_WIDTH = 120
_STOPPED = 130


def main() -> int:
    """Run the demo; returns the exit code."""
    arguments = _arguments()
    catch_signals()
    structlog.configure(processors=[_drop])
    console = Console(soft_wrap=True)
    if not console.is_terminal:
        console = Console(width=_PLAIN_WIDTH, soft_wrap=True)
    root = arguments.root.absolute()
    places = Places(
        out=(arguments.out or root / "build" / "demo").absolute(),
        manifest=root / "examples" / "demo.yaml",
        crds=root / "crds" / "kraftquorums.yaml",
    )
    try:
        with locked(places.out):
            demo_run = DemoRun(
                Environment(places),
                SHORT if arguments.short else FULL,
                console,
                hold=arguments.hold,
                spark=not arguments.no_spark,
            )
            return demo_run.execute()
    except KeyboardInterrupt:
        console.print("stopped", markup=False)
        return _STOPPED
    except SetupError as error:
        _complain(f"demo: {error}")
        return 2
    except (DemoError, DevClusterError) as error:
        _complain(f"demo: {error}")
        return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m kraftquorum_demo",
        description="Show the whole promise on this machine, with real parts.",
    )
    parser.add_argument("--hold", action="store_true", help="leave it running until Ctrl-C")
    parser.add_argument("--short", action="store_true", help="the same steps with less waiting")
    parser.add_argument("--no-spark", action="store_true", help="leave out the pipeline")
    parser.add_argument("--out", type=Path, help="where to leave everything (build/demo)")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository (here)")
    return parser.parse_args()


def _drop(_logger: object, _name: str, _event: object) -> str:
    raise structlog.DropEvent


def _complain(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
