"""A real node without finished batches, as the program was before APPEND_BATCH.

`python -m proofkit.oldernode run` is `raftnode run` with three functions replaced in this process
alone. Its greeting has no smallest batch, it does not know the operation, and it decodes each
record that it applies.
"""

from __future__ import annotations

import sys
from typing import Final

COMMAND: Final = (sys.executable, "-m", "proofkit.oldernode", "run")
"""What runs such a node, in the place of `raftnode run`."""

GREETING_BYTES: Final = 13
"""The size of the greeting before it had the smallest batch."""


def _install() -> None:
    from raftnode.api.errors import refusal  # noqa: PLC0415 - not for the tests
    from raftnode.api.session import Session  # noqa: PLC0415
    from raftnode.runtime.writes import applier  # noqa: PLC0415
    from raftnode.session import answers  # noqa: PLC0415
    from raftnode.session.answers import Greeting  # noqa: PLC0415

    encode = answers.encode_greeting

    def encode_greeting(greeting: Greeting) -> bytes:
        return encode(greeting)[:GREETING_BYTES]

    def append_batch(_session: Session, _pending: object) -> None:
        raise refusal("INVALID_REQUEST", "operation kind: 6; expected one of 1 (put) to 5 (read)")

    def keyless_sizes(*_: object) -> None:
        return None

    for owner, name, function in (
        (answers, "encode_greeting", encode_greeting),
        (Session, "_append_batch", append_batch),
        (applier, "keyless_sizes", keyless_sizes),
    ):
        assert hasattr(owner, name), name
        setattr(owner, name, function)


def main() -> None:
    """Run the `raftnode` program without them."""
    from raftnode import cli  # noqa: PLC0415 - not for the tests

    _install()
    cli.main()


if __name__ == "__main__":
    main()
