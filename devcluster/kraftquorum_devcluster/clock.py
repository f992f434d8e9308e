"""Times as Kubernetes writes them."""

import datetime as dt


def now() -> str:
    """The time in whole seconds, RFC 3339."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def now_micro() -> str:
    """The time in microseconds, as leases want it."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
