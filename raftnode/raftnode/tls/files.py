"""Watches the files of a listener, and keeps the last good material.

Between two steps of a tool that replaces them one after the other they do not belong together, and
the listener goes on with what it has.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import structlog

from raftnode.followed_files import LOOK_S, FollowedFiles, Refused
from raftnode.tls.certificates import Certificate
from raftnode.tls.expiry import ExpiryLog
from raftnode.tls.material import Material, TlsError, TlsRules, load_material

_log = structlog.get_logger(__name__)


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
        self._read_rules = rules
        # Refused files are read again: a certificate may become valid.
        self._files = FollowedFiles(rules.paths, self._load, TlsError)
        self.material: Material = self._files.first
        self._trusted_by: WeakKeyDictionary[ssl.SSLContext, tuple[Certificate, ...]]
        self._trusted_by = WeakKeyDictionary()
        self._note_trusted()
        self.version = 0
        self.problem: str | None = None
        self._expiries = ExpiryLog(rules.listener)

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
        """Log what expires soon or has expired, once each."""
        self._expiries.report(self.material, now)

    async def look(self) -> bool:
        """Take the files if they have changed and are good; return whether they were taken."""
        self._read_rules = replace(
            self.rules, cluster_id=self._cluster_id() or self.rules.cluster_id
        )
        look = await asyncio.to_thread(self._files.look)
        if look is None:
            return False
        if isinstance(look, Refused):
            self._refuse(look.problem)
            return False
        loaded = look.value
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

    def _load(self) -> Material:
        return load_material(self._read_rules)

    def _refuse(self, problem: str) -> None:
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
