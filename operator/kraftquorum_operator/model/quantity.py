"""Sizes in the notation of Kubernetes."""

from __future__ import annotations

from decimal import Decimal

_UNITS: dict[str, Decimal] = {
    "m": Decimal("0.001"),
    "": Decimal(1),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", start=1)},
}


def size_bytes(quantity: str) -> int:
    """A size such as `10Gi`, `1.5G` or `1073741824`, in bytes.

    Raises:
        ValueError: it is not a size.
    """
    number = quantity.rstrip("mkKMGTPEi")
    unit = quantity.removeprefix(number)
    if unit not in _UNITS or not number.replace(".", "", 1).isdecimal():
        msg = f"{quantity!r} is not a size: it must be a number and a unit, such as 10Gi"
        raise ValueError(msg)
    return int(Decimal(number) * _UNITS[unit])
