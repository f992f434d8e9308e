"""The exit codes of `kraftquorum-operator kafka advise`: an interface that does not change."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class AdviseExitCode(IntEnum):
    """How the command ended."""

    SAFE = 0
    USAGE = 2
    ACTION = 10
    AT_RISK = 11
    UNCONFIRMED = 12
    NO_LEADER = 13
    UNREACHABLE = 14
    TOO_OLD = 20
    STATIC_QUORUM = 21
    COMBINED_MODE = 22
    OTHER_CLUSTER = 23
    ID_MAP_MISMATCH = 24
    DIRECTORY_IDS_UNKNOWN = 25
    AUTHENTICATION_FAILED = 30
    ACCESS_DENIED = 31
    TLS_FAILED = 32
    NOT_KAFKA = 33


MEANINGS: Final[Mapping[AdviseExitCode, str]] = {
    AdviseExitCode.SAFE: "Confirmed: any one voter may be lost or replaced, and nothing is to do.",
    AdviseExitCode.USAGE: "An option or the file of `--command-config` is not allowed.",
    AdviseExitCode.ACTION: "Confirmed: one voter may be lost, and there is something to do.",
    AdviseExitCode.AT_RISK: "Confirmed: the loss of one more fresh voter stops the quorum.",
    AdviseExitCode.UNCONFIRMED: (
        "A majority did not confirm the leader's answer, for example because no-op records are "
        "switched off (`metadata.max.idle.interval.ms=0`)."
    ),
    AdviseExitCode.NO_LEADER: "No controller at these addresses leads.",
    AdviseExitCode.UNREACHABLE: "No controller answered.",
    AdviseExitCode.TOO_OLD: "Kafka is older than KIP-853: 3.9 or later is needed.",
    AdviseExitCode.STATIC_QUORUM: "`kraft.version` is 0: the voters are static.",
    AdviseExitCode.COMBINED_MODE: "A controller is a broker, too.",
    AdviseExitCode.OTHER_CLUSTER: "The cluster id is not that of `--cluster-id`, or differs.",
    AdviseExitCode.ID_MAP_MISMATCH: "The id map is not that of the controllers.",
    AdviseExitCode.DIRECTORY_IDS_UNKNOWN: "Kafka reports voters without a directory id.",
    AdviseExitCode.AUTHENTICATION_FAILED: "SASL refused the credentials or the mechanism.",
    AdviseExitCode.ACCESS_DENIED: "An ACL is missing; the message names the permission.",
    AdviseExitCode.TLS_FAILED: "The TLS handshake failed.",
    AdviseExitCode.NOT_KAFKA: "An answer is not Kafka's, or an error that is not known.",
}
"""For the reference page."""
