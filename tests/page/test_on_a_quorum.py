"""A real quorum of processes loses a disk, and the page tells it: before, meanwhile, after.

`make page SHOTS=docs/images` keeps the pictures for the documentation.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kraftquorum_operator.model.status import QuorumStatus

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.page, pytest.mark.cluster, pytest.mark.timeout(900)]

Found = TypeVar("Found")
Entry = dict[str, Any]

PORT = 9280
PATIENCE = {"lease_duration_s": 10, "node_timeout_s": 10}
"""For the operators, on a busy machine too: a look that met no leader in time does not leave a
change of voters out of the timeline, and the active operator stays the active one until it dies."""

VIEWS = {
    "desktop-light": ((1280, 900), "light"),
    "desktop-dark": ((1280, 900), "dark"),
    "phone-light": ((390, 844), "light"),
    "phone-dark": ((390, 844), "dark"),
}


def told(host: str) -> dict[str, Any]:
    """What an operator's page says; nothing while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{host}:{PORT}/status.json", timeout=10) as answer:
            return json.load(answer)
    except (OSError, ValueError):
        return {}


def only(page: dict[str, Any]) -> dict[str, Any]:
    """The one quorum that a page speaks of; nothing if it speaks of none."""
    quorums = page.get("quorums", [])
    return quorums[0] if len(quorums) == 1 else {}


def quorum(host: str) -> dict[str, Any]:
    return only(told(host))


def once(krq: Any, what: str, look: Callable[[], Found | None]) -> Found:
    """What a look finds as soon as it finds anything: the next one's may be another."""
    found: list[Found] = []

    def finds() -> bool:
        found.extend(filter(None, [look()]))
        return bool(found)

    krq.until(what, finds)
    return found[0]


PATHS = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    node.nodeValue = node.nodeValue.replace(/\\/\\S+\\/volumes\\/\\S+/g, "/var/lib/raftnode");
  }
}"""
"""Where the process node has its volumes is this machine's matter; a container says this."""


def shrink(path: Path) -> None:
    """256 colours are enough for a page."""
    from PIL import Image  # noqa: PLC0415 - only for pictures

    with Image.open(path) as image:
        small = image.convert("RGB").quantize(256, kmeans=4, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def shoot(tabs: dict[str, Any], name: str) -> None:
    """Look again, and keep pictures if that is asked for."""
    folder = os.environ.get("SHOTS")
    for view, opened in tabs.items():
        opened.page.reload()
        if folder:
            opened.page.evaluate(PATHS)
            path = Path(folder) / f"status-{name}-{view}.png"
            opened.page.screenshot(path=path, full_page=True)
            shrink(path)


def steps(found: dict[str, Any]) -> list[str]:
    return [f"{o['kind']} {o['step']}" for o in found.get("status", {}).get("operations", [])]


def timeline(found: dict[str, Any]) -> list[Entry]:
    return found.get("status", {}).get("timeline", [])


def shows_a_step(page: Any, *words: str) -> bool:
    """Whether the page marks one step, and says all this."""
    said = page.locator("main").inner_text()
    marked = page.locator("[aria-current=step]").count()
    return marked == 1 and all(word in said for word in words)


def earliest(entries: Sequence[Entry], kind: str, begins: str) -> Entry:
    """The entry, by when it was made first: one that comes again moves to the end."""
    found = [e for e in entries if e["kind"] == kind and e["message"].startswith(begins)]
    assert found, (kind, begins, entries)
    return min(found, key=began)


def began(entry: Entry) -> str:
    """When it was told first; an entry that came once has no time but its own."""
    return entry.get("first") or entry["at"]


def is_well_after(entries: Sequence[Entry], begins: str) -> bool:
    """Whether it was told that all is well, and that after this entry."""
    messages = [entry["message"] for entry in entries]
    at = next((i for i, message in enumerate(messages) if message.startswith(begins)), None)
    return at is not None and any(
        m.startswith("The quorum is ready: 3 voters") for m in messages[at:]
    )


def tells(entries: Sequence[Entry], story: Sequence[Entry]) -> bool:
    """Whether a timeline has all of a story; other entries may come, and repeats move."""
    said = {(entry["kind"], entry["message"]) for entry in entries}
    return all((entry["kind"], entry["message"]) in said for entry in story)


def test_a_lost_disk_is_told_from_beginning_to_end(krq, operators, tab, network) -> None:
    host, other = network.host(1), network.host(2)
    first = operators.start(page_host=host, page_port=PORT, **PATIENCE)
    # Long enough for a slow machine to see the replacement that waits for its end.
    krq.apply(voters=3, replacement={"gracePeriodSeconds": 30})
    krq.ready(3)
    krq.until("safe on the page", lambda: quorum(host).get("verdict") == "safe")

    tabs = {view: tab(size, scheme) for view, (size, scheme) in VIEWS.items()}
    for opened in tabs.values():
        opened.page.goto(f"http://{host}:{PORT}/")
    page = tabs["desktop-light"].page
    playwright.expect(page.locator("h1")).to_have_text("The quorum is safe.", timeout=60_000)
    before = dict(krq.voters())
    for uuid in before.values():
        playwright.expect(page.locator("main")).to_contain_text(
            uuid, use_inner_text=True, timeout=60_000
        )
    shoot(tabs, "safe")

    # The disk of a follower goes away under its process.
    ordinal = (krq.leader() + 1) % 3
    old = before[ordinal]
    krq.wipe(ordinal)
    playwright.expect(page.locator("section .pill")).not_to_have_text("Safe", timeout=60_000)
    known = {f"Replacement {step}" for step in ("Join", "CatchUp", "AddVoter")}
    krq.until("a replacement", lambda: bool(known & set(steps(quorum(host)))))
    replacing = f"Replacing the disk of demo-{ordinal}"
    krq.until("a step on the page", lambda: shows_a_step(page, replacing, old))
    shoot(tabs, "replacing")

    krq.replaced(ordinal, old)
    krq.until("safe again on the page", lambda: quorum(host).get("verdict") == "safe")
    now = dict(krq.voters())
    new = now[ordinal]
    playwright.expect(page.locator("section .pill")).to_have_text("Safe", timeout=60_000)
    shoot(tabs, "repaired")
    removed = f"Voter {ordinal} removed, directory id {old}"

    def repaired() -> list[Entry] | None:
        entries = timeline(quorum(host))
        return entries if is_well_after(entries, removed) else None

    events = once(krq, "all is well on the page", repaired)
    fault = earliest(events, "Fault", f"demo-{ordinal} does not answer")
    repairs = [
        earliest(events, kind, begins)
        for kind, begins in (
            ("Change", f"demo-{ordinal} has an empty disk, directory id {new}"),
            ("Repair", f"Voter {ordinal} added, directory id {new}"),
            ("Repair", removed),
        )
    ]
    at = [events.index(entry) for entry in repairs]
    assert at == sorted(at), events
    assert began(fault) <= began(repairs[0]), events
    for opened in tabs.values():
        assert opened.complaints == []

    # The same stands in the resource, and a second operator, on standby, shows it as well.
    story = [fault, *repairs]
    krq.until("the same in the resource", lambda: tells(timeline(krq.get()), story))
    operators.start(page_host=other, page_port=PORT, **PATIENCE)

    def safe() -> dict[str, Any] | None:
        said = told(other)
        return said if only(said).get("verdict") == "safe" else None

    standby = once(krq, "the standby's page", safe)
    assert standby["operator"]["active"] is False
    assert only(standby)["source"] == "reported"
    voters = QuorumStatus.model_validate(only(standby)["status"]).voters
    assert sorted((v.node_id, v.directory_id) for v in voters) == sorted(now.items())

    # The active one dies at once; the other one takes over, and the timeline goes on.
    first.kill()
    krq.until("a takeover", lambda: told(other).get("operator", {}).get("active", False), 60)
    krq.until("an own look", lambda: quorum(other).get("source") == "observed")
    krq.until("the timeline goes on", lambda: tells(timeline(quorum(other)), story))
    alert = page.get_by_role("alert")
    playwright.expect(alert).to_contain_text("has not answered", timeout=60_000)
