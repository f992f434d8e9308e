"""Errors of the wire.

DecodeError (raftnode.errors)   bytes that are not what they claim to be
└── MessageError                the envelope was readable: the sender can be answered
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raftnode.errors import DecodeError

if TYPE_CHECKING:
    from raftnode.core.messages import ErrorCode
    from raftnode.wire.envelope import Envelope


class MessageError(DecodeError):
    """A frame whose envelope can be read but whose message cannot be used.

    Attributes:
        envelope: what could be read; answer a request with `Codec.encode_error`.
        error: the code to answer with.
    """

    def __init__(self, envelope: Envelope, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.envelope = envelope
        self.error = error
