"""A disk that hangs: the flushes of a node do not return, as on a device that stopped answering.

No device of this machine can be stopped without root, so the nodes of the demo run as
`proofkit.faultynode`: the same program, whose fsync and fdatasync look at a file beside the
volume first, and wait for as long as it says that they hang. Its process, its event loop and
everything else go on, and the demo changes nothing but that file.
"""

import shlex
import sys
from pathlib import Path

from proofkit.faultynode import CONTROL, NodeFaults

_PROGRAM = "raftnode"


def install(programs: Path) -> None:
    """Let the pods run nodes whose disks can hang.

    Args:
        programs: Folder of programs that pods find before all others.
    """
    programs.mkdir(parents=True, exist_ok=True)
    path = programs / _PROGRAM
    python = shlex.quote(sys.executable)
    control = f'{CONTROL}="$RAFTNODE_LOG_DIR.faults"'
    run = f'exec {python} -m proofkit.faultynode "$@"'
    path.write_text(f"#!/bin/sh\n{control} {run}\n", encoding="utf-8")
    path.chmod(0o755)


def faults_of(volume: Path) -> NodeFaults:
    """What makes the disk of the node on a volume hang, and answer again."""
    return NodeFaults(volume.with_name(f"{volume.name}.faults"))
