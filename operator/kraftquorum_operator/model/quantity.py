"""Quantities in the notation of Kubernetes."""

from __future__ import annotations

import re
from fractions import Fraction

_DECIMAL = {"": Fraction(1), **{unit: Fraction(1000) ** n for n, unit in enumerate("kMGTPE", 1)}}
_BINARY = {f"{unit}i": Fraction(1024) ** n for n, unit in enumerate("KMGTPE", 1)}
_SMALL = {unit: Fraction(1000) ** -n for n, unit in enumerate("mun", 1)}
_UNITS = {**_SMALL, **_DECIMAL, **_BINARY}
_QUANTITY = re.compile(r"(\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d{1,3})|([numkKMGTPE]i?)?)", re.ASCII)
"""Number, and exponent or unit, as the API server accepts them."""


def amount(quantity: str) -> Fraction:
    """What a quantity such as `10Gi`, `1.5G`, `500m`, `1e9` or `1073741824` amounts to.

    Raises:
        ValueError: it is not a quantity.
    """
    parts = _QUANTITY.fullmatch(quantity)
    number, exponent, unit = parts.groups() if parts is not None else ("", None, None)
    if parts is None or (unit or "") not in _UNITS:
        msg = f"{quantity!r} is not a size: it must be a number and a unit, such as 10Gi"
        raise ValueError(msg)
    return Fraction(number) * _UNITS[unit or ""] * Fraction(10) ** int(exponent or 0)


def size_bytes(quantity: str) -> int:
    """A size such as `10Gi`, `1.5G` or `1073741824`, in bytes.

    Raises:
        ValueError: it is not a size.
    """
    return int(amount(quantity))


def canonical(quantity: object) -> object:
    """The one text of all quantities that amount to the same: `1Gi` of `1024Mi`, `1` of `1000m`.

    So another notation of a quantity changes no object. Multiples of `1Mi` have a binary unit,
    others a decimal one. A value that is no quantity stays as it is, for validation to refuse.
    """
    if isinstance(quantity, bool) or not isinstance(quantity, int | str):
        return quantity
    try:
        value = amount(str(quantity))
    except ValueError:
        return quantity
    if value.denominator != 1:
        thousandths = value * 1000
        return f"{thousandths}m" if thousandths.denominator == 1 else quantity
    units = _DECIMAL if value % _BINARY["Mi"] else _BINARY
    unit = next((u for u in reversed(units) if value and value % units[u] == 0), "")
    return f"{value / units[unit]}{unit}" if unit else str(value)
