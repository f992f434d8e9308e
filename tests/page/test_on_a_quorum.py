"""A real quorum of processes loses a disk, and the page tells it: before, meanwhile, after.

`make page SHOTS=docs/images` keeps the pictures for the documentation.
"""

from __future__ import annotations

import json
import os
import socket
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from kraftquorum_operator.model.status import QuorumStatus

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.page, pytest.mark.cluster, pytest.mark.timeout(400)]

VIEWS = {
    "desktop-light": ((1280, 900), "light"),
    "desktop-dark": ((1280, 900), "dark"),
    "phone-light": ((390, 844), "light"),
    "phone-dark": ((390, 844), "dark"),
}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def told(port: int) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/status.json", timeout=10) as answer:
        return json.load(answer)


def quorum(port: int) -> dict[str, Any]:
    try:
        (found,) = told(port)["quorums"]
    except (OSError, ValueError):
        return {}
    return found


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


def test_a_lost_disk_is_told_from_beginning_to_end(krq, operators, tab) -> None:
    port, other = free_port(), free_port()
    first = operators.start(page_port=port)
    krq.apply(voters=3, replacement={"gracePeriodSeconds": 8})
    krq.ready(3)
    krq.until("safe on the page", lambda: quorum(port).get("verdict") == "safe", 20)

    tabs = {view: tab(size, scheme) for view, (size, scheme) in VIEWS.items()}
    for opened in tabs.values():
        opened.page.goto(f"http://127.0.0.1:{port}/")
    page = tabs["desktop-light"].page
    assert page.locator("h1").inner_text() == "The quorum is safe."
    for _, uuid in krq.voters():
        assert uuid in page.locator("main").inner_text()
    shoot(tabs, "safe")

    # The disk of a follower goes away under its process.
    ordinal = (krq.leader() + 1) % 3
    old = dict(krq.voters())[ordinal]
    krq.wipe(ordinal)
    playwright.expect(page.locator("section .pill")).not_to_have_text("Safe", timeout=60_000)
    known = {f"Replacement {step}" for step in ("Join", "CatchUp", "AddVoter")}
    krq.until("a replacement", lambda: bool(known & set(steps(quorum(port)))), 90)
    shoot(tabs, "replacing")
    meanwhile = page.locator("main").inner_text()
    assert f"Replacing the disk of demo-{ordinal}" in meanwhile
    assert page.locator("[aria-current=step]").count() == 1
    assert old in meanwhile

    krq.replaced(ordinal, old, timeout_s=120)
    krq.until("safe again on the page", lambda: quorum(port).get("verdict") == "safe", 30)
    new = dict(krq.voters())[ordinal]
    playwright.expect(page.locator("section .pill")).to_have_text("Safe", timeout=20_000)
    shoot(tabs, "repaired")
    events = [(e["kind"], e["message"]) for e in quorum(port)["status"]["timeline"]]
    messages = [message for _, message in events]
    at = [
        next(i for i, e in enumerate(events) if e[0] == kind and e[1].startswith(begins))
        for kind, begins in (
            ("Fault", f"demo-{ordinal} does not answer"),
            ("Change", f"demo-{ordinal} has an empty disk, storage UUID {new}"),
            ("Repair", f"Voter {ordinal} added, storage UUID {new}"),
            ("Repair", f"Voter {ordinal} removed, storage UUID {old}"),
        )
    ]
    assert at == sorted(at), messages
    assert messages[-1].startswith("All is well: 3 voters")
    for opened in tabs.values():
        assert opened.complaints == []

    # The same stands in the resource, and a second operator, on standby, shows it as well.
    assert [e["message"] for e in krq.status()["timeline"]] == messages
    operators.start(page_port=other)
    krq.until("the standby's page", lambda: quorum(other).get("verdict") == "safe", 60)
    standby = told(other)
    assert standby["operator"]["active"] is False
    assert standby["quorums"][0]["source"] == "reported"
    voters = QuorumStatus.model_validate(standby["quorums"][0]["status"]).voters
    assert [(v.node_id, v.directory_id) for v in voters] == krq.voters()

    # The active one dies at once; the other one takes over, and the timeline goes on.
    first.kill()
    krq.until("a takeover", lambda: told(other)["operator"]["active"], 60)
    krq.until("an own look", lambda: quorum(other)["source"] == "observed", 30)
    assert [e["message"] for e in quorum(other)["status"]["timeline"]][: len(messages)] == messages
    alert = page.get_by_role("alert")
    playwright.expect(alert).to_contain_text("does not answer", timeout=30_000)
