"""The data set that the demo loads: the time zone files that the `tzdata` package ships."""

from importlib import resources
from importlib.metadata import version


def zone_files(limit: int | None = None) -> dict[str, bytes]:
    """Files of the IANA time zone database by zone name, in order of name.

    Args:
        limit: How many at most, spread over the alphabet; None: all.
    """
    package = resources.files("tzdata")
    names = sorted(package.joinpath("zones").read_text(encoding="utf-8").split())
    if limit is not None and limit < len(names):
        names = [names[number * len(names) // limit] for number in range(limit)]
    zones = package.joinpath("zoneinfo")
    return {name: zones.joinpath(*name.split("/")).read_bytes() for name in names}


def tzdata_version() -> str:
    """The version of the package, which is that of the database."""
    return version("tzdata")
