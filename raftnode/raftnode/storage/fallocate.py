"""Linux's `fallocate` with the file's size kept, called in the C library.

Python has only `os.posix_fallocate`. That moves the end of the file, and the C library writes
zeros if the file system cannot reserve room.
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
        OSError: `EOPNOTSUPP` or `ENOSYS` if the file system or the C library cannot reserve.
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
    # By its 64-bit name if there is one: the other function's offsets may have 32 bits.
    call = getattr(library, "fallocate64", None) or getattr(library, "fallocate", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
        call.restype = ctypes.c_int
    return call
