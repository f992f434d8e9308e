"""Program that becomes another one, after asking to die with its parent.

Run as ``python -I -S launch.py PARENT_PID PROGRAM ARGUMENT…``: standard library
only, and as little of it as possible, since it stands before every process.
The process id stays the same, since the last step is ``execve``.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Arm the death signal, check that the parent still lives, become the program."""
    parent = int(sys.argv[1])
    command = sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.stderr.write(f"launch: prctl failed: errno {ctypes.get_errno()}\n")
        sys.exit(126)
    if os.getppid() != parent:  # it died before the signal was armed
        sys.exit(125)
    for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - this is what the program is for
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main()
