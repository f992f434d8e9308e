"""Where a certificate and its key are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """PEM files of a certificate chain and its key."""

    certificate: Path
    key: Path
