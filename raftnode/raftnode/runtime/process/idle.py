"""Idle priority for background work: its thread gets only processor and disk time left over."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import threading

_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
_WHO_PROCESS, _CLASS_IDLE, _CLASS_SHIFT = 1, 3, 13
_NICE = 19


def make_thread_idle() -> None:
    """Give the calling thread the lowest priorities, as far as the system allows it.

    Only some I/O schedulers know a priority for the disk; with the others, the rate limit of the
    work has to be enough.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:
        with contextlib.suppress(OSError, AttributeError):
            libc = ctypes.CDLL(None, use_errno=True)
            libc.syscall(number, _WHO_PROCESS, 0, _CLASS_IDLE << _CLASS_SHIFT)
