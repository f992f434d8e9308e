"""Watches the files of a listener, and keeps the last good material.

Kubernetes replaces the files of a mounted Secret by one link, `..data`. A tool may also replace
them one after the other: between the two steps they do not belong together, and the listener goes
on with what it has.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from weakref import WeakKeyDictionary

import structlog

from raftnode.small_files import stamp_of_file
from raftnode.tls.certificates import Certificate
from raftnode.tls.material import Material, TlsError, TlsRules, load_material

_log = structlog.get_logger(__name__)

LOOK_S = 1.0
"""Interval between two looks at the files."""

EXPIRES_SOON = 0.1
"""Share of its validity that is left when a certificate expires soon; as in the alert."""

RETRY_S = 60.0
"""Bad files that do not change are read again after this: a certificate may become valid."""

Stamp = tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class Reload:
    """The outcome of a look at changed files; `problem` is None if they are taken."""

    listener: str
    problem: str | None


class TlsFiles:
    """The files of one listener.

    Attributes:
        rules: which files, and what they must be.
        material: the last good.
        version: grows with each change of the material.
        problem: why the present files are not in force; None: they are.

    Raises:
        TlsError: the files cannot be used at start.
    """

    def __init__(
        self,
        rules: TlsRules,
        *,
        cluster_id: Callable[[], str | None] = lambda: None,
        on_reload: Callable[[Reload], None] = lambda _: None,
    ) -> None:
        self.rules = rules
        self._cluster_id = cluster_id
        self._on_reload = on_reload
        self._stamp = stamp_of(rules.paths)
        self.material: Material = load_material(rules)
        self._trusted_by: WeakKeyDictionary[ssl.SSLContext, tuple[Certificate, ...]]
        self._trusted_by = WeakKeyDictionary()
        self._note_trusted()
        self.version = 0
        self.problem: str | None = None
        self._looks_since_problem = 0
        self._warned: str | None = None

    def trusted_by(self, context: ssl.SSLContext) -> tuple[Certificate, ...]:
        """The CAs with which a context verifies the other end; it may be a former context."""
        return self._trusted_by.get(context, ())

    def _note_trusted(self) -> None:
        for context in (self.material.server, self.material.client):
            self._trusted_by[context] = self.material.trusted

    async def watch(self, on_changed: Callable[[], None] = lambda: None) -> None:
        """Look at the files once a second, until cancelled; call back after a change."""
        while True:
            self.warn(dt.datetime.now(dt.UTC))
            await asyncio.sleep(LOOK_S)
            if await self.look():
                on_changed()

    def warn(self, now: dt.datetime) -> None:
        """Log once that the certificate in force expires soon, and once that it has expired."""
        left_s, certificate = self.material.seconds_left(now), self.material.certificate
        state = None
        if left_s <= 0:
            state = "expired"
        elif left_s < self.material.lifetime_s * EXPIRES_SOON:
            state = "expires soon"
        if state == self._warned:
            return
        self._warned = state
        fields = {
            "listener": self.rules.listener,
            "sha256": certificate.sha256,
            "not_after": certificate.not_after.isoformat(),
        }
        if state == "expired":
            _log.error("certificate_expired", **fields)
        elif state is not None:
            _log.warning("certificate_expiry_approached", **fields)

    async def look(self) -> bool:
        """Take the files if they have changed and are good; return whether they were taken."""
        rules = replace(self.rules, cluster_id=self._cluster_id() or self.rules.cluster_id)
        stamp, loaded = await asyncio.to_thread(self._read, rules)
        if loaded is None:
            return False
        # The stamp is from before the reading: a change during it is one for the next look.
        self._stamp = stamp
        if isinstance(loaded, TlsError):
            self._refuse(str(loaded))
            return False
        self._looks_since_problem = 0
        was_bad, self.problem = self.problem is not None, None
        if loaded.is_like(self.material) and not was_bad:
            return False
        changed = not loaded.is_like(self.material)
        self.material = loaded
        self._note_trusted()
        self.version += changed
        certificate = loaded.certificate
        _log.info(
            "certificate_loaded",
            listener=self.rules.listener,
            sha256=certificate.sha256,
            not_after=certificate.not_after.isoformat(),
            trusted=[ca.sha256 for ca in loaded.trusted],
        )
        self._on_reload(Reload(self.rules.listener, None))
        return changed

    def _read(self, rules: TlsRules) -> tuple[Stamp, Material | TlsError | None]:
        """Read changed files; None: they have not changed. Runs on another thread."""
        stamp = stamp_of(rules.paths)
        if stamp == self._stamp:
            if self.problem is None:
                return stamp, None
            self._looks_since_problem += 1
            if self._looks_since_problem * LOOK_S < RETRY_S:
                return stamp, None
        try:
            return stamp, load_material(rules)
        except TlsError as error:
            return stamp, error

    def _refuse(self, problem: str) -> None:
        self._looks_since_problem = 0
        if problem == self.problem:
            return
        self.problem = problem
        _log.warning(
            "certificate_refused",
            listener=self.rules.listener,
            problem=problem,
            in_force=self.material.certificate.sha256,
        )
        self._on_reload(Reload(self.rules.listener, problem))


def stamp_of(paths: tuple[Path, ...]) -> Stamp:
    """What changes when a file changes, or the link that leads to it."""
    return tuple(map(stamp_of_file, paths))
