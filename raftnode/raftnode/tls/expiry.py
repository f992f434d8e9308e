"""When the certificates of a listener expire, and the log lines about it, before and after."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Literal

import structlog

from raftnode.tls.certificates import Certificate
from raftnode.tls.material import Material

_log = structlog.get_logger(__name__)

EXPIRES_SOON = 0.1
"""Share of its validity that is left when a certificate expires soon; as in the alert."""

CA_EXPIRES_SOON_S = 7 * 86_400
"""What is left when a CA expires soon; as in the alert. Its replacement takes several steps."""

Stage = Literal["valid", "expires soon", "expired"]

Use = tuple[Literal["own", "ca"], str]
"""What a listener does with a certificate, and its fingerprint: a file of CAs may have its own."""


class ExpiryLog:
    """Logs once that a certificate expires soon, and once that it has expired.

    An expired CA beside a valid one harms nothing by itself: each has lines of its own.
    """

    def __init__(self, listener: str) -> None:
        self._listener = listener
        self._stages: dict[Use, Stage] = {}

    def report(self, material: Material, now: dt.datetime) -> None:
        """Log what has changed since the last report."""
        before, self._stages = self._stages, {}
        self._report_own(before, material, now)
        self._report_trusted(before, tuple(dict.fromkeys(material.trusted)), now)

    def _report_own(self, before: dict[Use, Stage], material: Material, now: dt.datetime) -> None:
        own = material.certificate
        stage = _stage(material.seconds_left(now), material.lifetime_s * EXPIRES_SOON)
        if not self._is_new(before, ("own", own.sha256), stage):
            return
        fields = _fields(self._listener, own) | {
            "accepted_until": material.accepted_until.isoformat()
        }
        if stage == "expired":
            _log.error("certificate_expired", **fields)
        else:
            _log.warning("certificate_expiry_approached", **fields)

    def _report_trusted(
        self, before: dict[Use, Stage], trusted: Sequence[Certificate], now: dt.datetime
    ) -> None:
        valid = sum(ca.not_after > now for ca in trusted)
        for ca in trusted:
            stage = _stage((ca.not_after - now).total_seconds(), CA_EXPIRES_SOON_S)
            if not self._is_new(before, ("ca", ca.sha256), stage):
                continue
            fields = _fields(self._listener, ca) | {
                "common_name": ca.common_name,
                "valid_cas": valid,
            }
            if stage == "expired":
                _log.warning("ca_expired", **fields)
            else:
                _log.warning("ca_expiry_approached", **fields)

    def _is_new(self, before: dict[Use, Stage], use: Use, stage: Stage) -> bool:
        self._stages[use] = stage
        return stage not in ("valid", before.get(use))


def _stage(left_s: float, soon_s: float) -> Stage:
    if left_s <= 0:
        return "expired"
    return "expires soon" if left_s < soon_s else "valid"


def _fields(listener: str, certificate: Certificate) -> dict[str, object]:
    return {
        "listener": listener,
        "sha256": certificate.sha256,
        "not_after": certificate.not_after.isoformat(),
    }
