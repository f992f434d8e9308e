"""What a person sees and can do: content, keyboard, both colour schemes, a phone, no network."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from typing import Any

import pytest

from kraftquorum_operator.memory.status_cache import CachedStatus, StatusCache
from kraftquorum_operator.model.objects import Owner
from kraftquorum_operator.model.observation import Observation, Trouble
from kraftquorum_operator.model.status import QuorumStatus
from kraftquorum_operator.plan.actions import Decision, Wait
from kraftquorum_operator.report.stamp import Stamp
from kraftquorum_operator.report.status import build_status
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import (
    NOW_MS,
    blank,
    healthy,
    node,
    quorum,
    spec,
    voter,
    with_node,
    without_node,
)

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.page, pytest.mark.timeout(120)]

DESKTOP, PHONE, NARROW = (1280, 900), (390, 844), (320, 640)
HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>"


def at(second: int) -> Stamp:
    return Stamp(f"2026-11-21T12:31:{second:02}Z", 1)


def status(
    seen: Observation,
    voters: int = 3,
    decision: Decision | None = None,
    last: QuorumStatus | None = None,
    second: int = 0,
) -> QuorumStatus:
    wanted = spec(voters=voters)
    return build_status(
        wanted,
        seen,
        decision or decide(wanted, seen, NOW_MS),
        current_action=None,
        before=last.conditions if last else (),
        stamp=at(second),
        last=last,
    )


def named(seen: Observation, name: str) -> Observation:
    return replace(seen, name=name)


def put(statuses: StatusCache, path: str, told: QuorumStatus | None, voters: int = 3) -> None:
    namespace, name = path.split("/")
    if told is None:
        statuses.quorums[namespace, name] = CachedStatus(
            namespace, name, path, voters, None, time.time(), True
        )
    else:
        statuses.observed(Owner(namespace, name, path), voters, told, time.time())


def scene() -> StatusCache:
    """One quorum of each sort."""
    statuses = StatusCache(QuorumStatus)
    put(statuses, "prod/orders", status(named(healthy(5), "orders"), 5), 5)
    well = named(healthy(), "metadata")
    away = replace(
        without_node(well, 1), quorum=quorum([voter(0), voter(1, silent_ms=900), voter(2)])
    )
    new = with_node(away, node(1, "b"))
    first = status(well)
    second = status(away, last=first, second=10)
    put(statuses, "prod/metadata", status(new, last=second, second=14))
    lost = Wait("never_rebootstrap", "storage of 2 of 3 voters is gone (0-a0, 1-a1)")
    put(statuses, "stage/ledger", status(replace(healthy(), quorum=None), decision=lost))
    trouble = Trouble(2, "pod small-2", "ImagePullBackOff", "no such image")
    put(statuses, "dev/small", status(replace(named(blank(), "small"), troubles=(trouble,))))
    paused = Wait("not_paused", "spec.pause is set")
    put(statuses, "dev/paused", status(named(healthy(), "paused"), decision=paused))
    put(statuses, "dev/unseen", None)
    return statuses


def violations(page: Any) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - only with `make page`

    found = Axe().run(page).response
    assert len(found["passes"]) > 15, "axe has looked at nothing"
    assert any(rule["id"] == "color-contrast" for rule in found["passes"])
    return [
        f"{rule['id']}: {one['html']} {one['failureSummary']}"
        for rule in found["violations"]
        for one in rule["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE, NARROW])
def test_axe_finds_nothing_and_nothing_is_cut_off(serve, tab, scheme, size) -> None:
    opened = tab(size, scheme)
    opened.page.goto(serve(scene()).url)
    assert violations(opened.page) == []
    wide = opened.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= size[0]
    assert opened.complaints == []


def test_axe_would_find_a_fault(serve, tab) -> None:
    opened = tab()
    opened.page.goto(serve(scene()).url)
    opened.page.evaluate(
        "document.querySelector('.sentence').style.color = '#ccc';"
        "document.documentElement.removeAttribute('lang')"
    )
    told = " ".join(violations(opened.page))
    assert "html-has-lang" in told
    assert "color-contrast" in told


def test_the_two_schemes_differ_and_follow_the_reader_s_choice(serve, tab) -> None:
    url = serve(scene()).url
    colours = {}
    for scheme in ("light", "dark"):
        page = tab(scheme=scheme).page
        page.goto(url)
        colours[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    light, dark = (
        sum(map(int, re.findall(r"\d+", colours[scheme])[:3])) for scheme in ("light", "dark")
    )
    assert light > 600
    assert dark < 150


def test_the_worst_stands_first_and_each_says_in_words_how_it_is(serve, tab) -> None:
    page = tab().page
    page.goto(serve(scene()).url)
    pills = page.locator(".overview .pill").all_inner_texts()
    assert [pill.strip() for pill in pills] == [
        "Lost",
        "Unknown",
        "At risk",
        "Needs a person",
        "Forming",
        "Safe",
    ]
    headings = page.get_by_role("heading", level=2).all_inner_texts()
    assert headings[0] == "stage/ledger"
    assert headings[-1] == "prod/orders"
    assert page.get_by_role("heading", level=1).inner_text() == (
        "4 of 6 quorums need attention, first stage/ledger: lost."
    )
    assert page.title().startswith("4 of 6 quorums need attention")
    section = page.get_by_role("region", name="prod/metadata")
    told = section.inner_text()
    for said in ("At risk", "a0", "b1", "this storage is lost", "Replacing the disk", "Catch up"):
        assert said in told, said
    assert section.locator("[aria-current=step]").inner_text() == "Catch up"


def test_it_can_be_walked_by_keyboard(serve, tab) -> None:
    page = tab().page
    page.goto(serve(scene()).url)

    def focus() -> dict[str, Any]:
        return page.evaluate(
            "() => { const e = document.activeElement, s = getComputedStyle(e);"
            " return {text: e.textContent.trim().replace(/\\s+/g, ' '), tag: e.nodeName,"
            " seen: s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2,"
            " top: e.getBoundingClientRect().top}; }"
        )

    walked = []
    for _ in range(40):
        page.keyboard.press("Tab")
        now = focus()
        if now["tag"] == "BODY":
            break
        walked.append(now)
    assert [one["text"] for one in walked[:4]] == [
        "Skip to the quorums",
        "kraftquorum",
        "Pause refresh",
        "JSON",
    ]
    assert all(one["seen"] for one in walked), walked
    assert [one["tag"] for one in walked[4:10]] == ["A"] * 6
    assert [one["text"] for one in walked[10:]].count("Recent events") == 5
    assert walked[0]["top"] >= 0

    page.reload()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.get_by_role("link", name="prod/orders").focus()
    page.keyboard.press("Enter")
    assert (
        page.locator("[id='quorum-prod.orders']").evaluate("e => e.getBoundingClientRect().top")
        < 700
    )
    details = page.locator("[id='time-prod.metadata']")
    before = details.evaluate("e => e.open")
    details.locator("summary").focus()
    page.keyboard.press("Enter")
    assert details.evaluate("e => e.open") is not before


def fetched(opened: Any, server: Any, times: int) -> None:
    """Wait until the tab was answered so often; all answers but the last are shown by then.

    The tab asks again some seconds after it has shown an answer, and not before.
    """
    for _ in range(times):
        with opened.page.expect_response(lambda answer: answer.url == server.url):
            pass


def refreshed(opened: Any, server: Any, change: Any) -> None:
    """Change the cached statuses and wait until the tab shows it.

    The first answer may be from before the change, also because a page is kept for a second; the
    second is not, and the third says that the second is shown.
    """
    change(server.statuses)
    fetched(opened, server, times=3)


def test_a_refresh_keeps_focus_scroll_selection_and_what_was_opened(serve, tab) -> None:
    server = serve(scene())
    opened = tab((1280, 600))
    page = opened.page
    page.goto(server.url)
    summary = page.locator("[id='time-prod.orders'] summary")
    page.evaluate("window.mine = document.getElementById('time-prod.orders')")
    summary.scroll_into_view_if_needed()
    summary.focus()
    is_open = page.locator("[id='time-prod.orders']").evaluate("e => e.open")
    page.keyboard.press("Enter")
    page.evaluate(
        "getSelection().selectAllChildren(document.querySelector('[id=\"quorum-prod.orders\"] code'))"
    )
    selected = page.evaluate("getSelection().toString()")
    top = summary.evaluate("e => e.getBoundingClientRect().top")
    assert selected == "a0"

    def recovered(statuses: StatusCache) -> None:
        put(statuses, "stage/ledger", status(named(healthy(), "ledger")))

    refreshed(opened, server, recovered)
    assert page.locator("#summary").inner_text().startswith("3 of 6 quorums")
    assert page.evaluate("document.activeElement.textContent") == "Recent events"
    assert page.evaluate("document.activeElement.parentElement === window.mine")
    assert page.locator("[id='time-prod.orders']").evaluate("e => e.open") is not is_open
    assert page.evaluate("getSelection().toString()") == selected
    assert abs(summary.evaluate("e => e.getBoundingClientRect().top") - top) < 250
    assert page.locator("#said").inner_text().startswith("3 of 6 quorums")
    assert page.get_by_role("heading", level=2).all_inner_texts()[0] == "dev/unseen"
    assert opened.complaints == []


def test_a_focused_link_keeps_its_focus_though_its_quorum_moves(serve, tab) -> None:
    server = serve(scene())
    opened = tab()
    opened.page.goto(server.url)
    opened.page.locator("[id='link-prod.orders']").focus()

    def stopped(statuses: StatusCache) -> None:
        seen = replace(named(healthy(5), "orders"), quorum=None)
        put(statuses, "prod/orders", status(seen, 5), 5)

    refreshed(opened, server, stopped)
    assert opened.page.evaluate("document.activeElement.id") == "link-prod.orders"
    assert "Writes stopped" in opened.page.evaluate("document.activeElement.textContent")


def test_the_refresh_can_be_paused(serve, tab) -> None:
    server = serve(scene())
    page = tab().page
    page.goto(server.url)
    button = page.get_by_role("button", name="Pause refresh")
    button.focus()
    page.keyboard.press("Space")
    assert button.get_attribute("aria-pressed") == "true"
    put(server.statuses, "stage/ledger", status(named(healthy(), "ledger")))
    page.wait_for_timeout(4500)
    assert page.locator("#summary").inner_text().startswith("4 of 6")
    button.click()
    playwright.expect(page.locator("#summary")).to_contain_text("3 of 6", timeout=15_000)


def test_an_operator_that_ends_is_told_and_so_is_its_return(serve, tab) -> None:
    server = serve(scene())
    opened = tab()
    page = opened.page
    page.goto(server.url)
    assert page.get_by_role("alert").inner_text() == ""
    page.context.set_offline(True)
    alert = page.get_by_role("alert")
    playwright.expect(alert).to_contain_text("has not answered", timeout=20_000)
    since = re.search(r"since (\d\d:\d\d:\d\d) UTC", alert.inner_text())
    assert since is not None
    page.wait_for_timeout(4000)
    assert since[0] in alert.inner_text()
    assert "stage/ledger" in page.locator("main").inner_text()
    page.context.set_offline(False)
    playwright.expect(alert).to_have_text("", timeout=20_000)


def test_a_quorum_that_is_deleted_while_its_page_is_open_is_not_the_operator_s_silence(
    serve, tab
) -> None:
    server = serve(scene())
    page = tab().page
    page.goto(f"{server.url}q/prod/metadata")
    server.statuses.forget("prod", "metadata", "prod/metadata")
    alert = page.get_by_role("alert")
    playwright.expect(alert).to_contain_text("no longer exists", timeout=20_000)
    assert "has not answered" not in alert.inner_text()


def test_nothing_is_asked_of_any_other_server(serve, tab) -> None:
    server = serve(scene())
    opened = tab()
    opened.page.goto(server.url)
    fetched(opened, server, times=2)
    assert len(opened.asked) >= 4
    assert all(url.startswith(server.url) for url in opened.asked)
    assert opened.complaints == []


def test_without_scripts_it_is_whole_and_reloads_by_itself(serve, tab) -> None:
    page = tab(scripts=False).page
    page.goto(serve(scene()).url)
    assert page.locator("section").count() == 6
    assert page.locator("#pause").is_hidden()
    assert "http-equiv" in page.content()


def test_names_and_messages_stay_text_also_when_they_are_refreshed(serve, tab) -> None:
    statuses = StatusCache(QuorumStatus)
    seen = healthy()
    said = status(seen, decision=Wait("survivors_caught_up", HOSTILE)).model_dump(mode="json")
    hostile = QuorumStatus.model_validate_json(
        json.dumps(said).replace("demo-", json.dumps(HOSTILE)[1:-1])
    )
    server = serve(statuses)
    opened = tab()
    opened.page.goto(server.url)

    def change(statuses: StatusCache) -> None:
        statuses.quorums[HOSTILE, HOSTILE] = CachedStatus(
            HOSTILE, HOSTILE, "u", 3, hostile, time.time(), True
        )

    refreshed(opened, server, change)
    assert HOSTILE in opened.page.locator("main").inner_text()
    opened.page.reload()
    assert opened.page.locator("main script, main img").count() == 0
    assert opened.complaints == []


def test_a_quorum_s_own_page_refreshes_too(serve, tab) -> None:
    server = serve(scene())
    opened = tab()
    opened.page.goto(f"{server.url}q/prod/metadata")
    assert opened.page.get_by_role("heading", level=1).inner_text() == "prod/metadata"
    assert opened.page.locator("section").count() == 1
    put(server.statuses, "prod/metadata", status(named(healthy(), "metadata")))
    playwright.expect(opened.page.locator(".pill")).to_have_text("Safe", timeout=15_000)
    opened.page.get_by_role("link", name="All quorums").click()
    assert opened.page.url == server.url
    assert opened.complaints == []
