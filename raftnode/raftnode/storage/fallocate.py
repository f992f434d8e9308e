"""Linux's `fallocate` with the file's size kept, by way of the C library.

Python has `os.posix_fallocate` alone. That moves the end of the file, and the C library writes
zeros where the file system cannot reserve.
"""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from typing import Any

_KEEP_SIZE = 1


def reserve(fd: int, length: int) -> None:
    """Reserve room on the disk for the bytes below `length`; size and content stay.

    Raises:
        OSError: `EOPNOTSUPP` or `ENOSYS` where the file system or the C library cannot.
            After `ENOSPC` a part may be reserved.
    """
    call = _call()
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    while call(fd, _KEEP_SIZE, 0, length):
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))


@cache
def _call() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    # By its 64-bit name where there is one: the other's offsets may have 32 bits.
    call = getattr(library, "fallocate64", None) or getattr(library, "fallocate", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
        call.restype = ctypes.c_int
    return call
