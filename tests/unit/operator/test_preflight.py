"""The operator waits for an API server that serves its resource, and logs that."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from kraftquorum_operator import names
from kraftquorum_operator.errors import (
    KubeError,
    KubeUnavailableError,
    NotFoundError,
    RefusedError,
    SettingsError,
)
from kraftquorum_operator.preflight import (
    Namespaces,
    await_api,
    await_rights,
    explain,
    missing_rights,
    report_kafka_crd,
    watchable_namespaces,
)
from kraftquorum_operator.rights import SECRETS, WATCHED
from kraftquorum_operator.settings import load_settings


class FakeKube:
    """Fails with each error in turn, then answers."""

    def __init__(self, *errors: KubeError) -> None:
        self.errors = list(errors)

    async def probe(self, _plural: str = names.PLURAL) -> None:
        if self.errors:
            raise self.errors.pop(0)


AWAY = KubeUnavailableError(0, "Unreachable", "GET /apis: connection refused")
NO_CRD = NotFoundError(404, "NotFound", "not found")
FORBIDDEN = RefusedError(403, "Forbidden", "no")


async def test_each_reason_is_told_once_while_it_lasts() -> None:
    kube = FakeKube(AWAY, AWAY, AWAY, NO_CRD, NO_CRD)
    with capture_logs() as logs:
        await await_api(cast("Any", kube), retry_s=0)
    assert [line["event"] for line in logs] == [
        "startup_delayed",
        "startup_delayed",
        "startup_continued",
    ]
    assert {line["what"] for line in logs} == {"the API server"}
    assert not kube.errors


async def test_a_server_that_is_there_is_not_worth_a_line() -> None:
    with capture_logs() as logs:
        await await_api(cast("Any", FakeKube()), retry_s=0)
    assert logs == []


class Roles:
    """An API server that allows some things only; answers of a time out go first."""

    def __init__(self, denied: set[tuple[str, str]], *errors: KubeError) -> None:
        self.denied = denied
        self.errors = list(errors)
        self.asked: list[tuple[str, str, str, str | None, str | None]] = []

    async def may(
        self, verb: str, group: str, resource: str, *, namespace: str | None, name: str | None
    ) -> bool:
        if self.errors:
            raise self.errors.pop(0)
        self.asked.append((verb, group, resource, namespace, name))
        return (verb, resource) not in self.denied


async def test_missing_rights_are_named_with_verb_resource_and_namespace_and_waited_for() -> None:
    roles = Roles({("delete", "pods"), ("patch", "pods"), ("update", "leases")})
    settings = load_settings(namespace="a, b", lease_namespace="ops")

    async def grant_once_told() -> None:
        while not logs:  # noqa: ASYNC110 - the log is what is waited for
            await asyncio.sleep(0.001)
        roles.denied = set()

    with capture_logs() as logs:
        async with asyncio.TaskGroup() as group:
            group.create_task(await_rights(cast("Any", roles), settings, retry_s=0.001))
            group.create_task(grant_once_told())
    assert logs[0]["why"] == (
        "the operator's roles do not allow: update leases.coordination.k8s.io in namespace ops; "
        "delete pods in namespace a; delete pods in namespace b"
    )
    assert logs[-1]["event"] == "startup_continued"


class Namespaced(Roles):
    """Roles of some namespaces only: the others are gone."""

    def __init__(self, *there: str) -> None:
        super().__init__(set())
        self.there = there

    async def may(
        self, verb: str, group: str, resource: str, *, namespace: str | None, name: str | None
    ) -> bool:
        await super().may(verb, group, resource, namespace=namespace, name=name)
        return resource == "leases" or namespace in self.there


async def test_a_namespace_that_is_gone_keeps_no_other_one_waiting() -> None:
    settings = load_settings(namespace="a,b,c", lease_namespace="ops")
    roles = cast("Any", Namespaced("a", "c"))
    assert len(await missing_rights(roles, settings)) == len([r for r in WATCHED if not r.limits])
    async with asyncio.timeout(60):
        await await_rights(roles, settings, retry_s=0.001)
    assert (await watchable_namespaces(roles, settings)).watched == ("a", "c")
    refused = cast("Any", Roles(set(), FORBIDDEN))
    assert (await watchable_namespaces(refused, settings)).watched == ("a", "b", "c")


async def test_a_namespace_goes_on_being_watched_while_its_quorums_can_be_told() -> None:
    settings = load_settings(namespace="a,b", lease_namespace="ops")
    roles = Roles({("list", "persistentvolumeclaims")})
    asked = cast("Any", roles)
    lacking = {"a": ("list persistentvolumeclaims in namespace a",)}
    assert await watchable_namespaces(asked, settings) == Namespaces(()), "none is begun"
    assert await watchable_namespaces(asked, settings, ["a"]) == Namespaces(("a",), lacking)
    roles.denied.add(("watch", names.PLURAL))
    assert await watchable_namespaces(asked, settings, ["a"]) == Namespaces(())


@pytest.mark.without(
    "kraftquorum_operator.preflight:_missing_in",
    "[right for right in WATCHED if not right.limits]",
    "WATCHED",
)
async def test_a_right_that_some_quorums_need_limits_these_and_delays_no_start() -> None:
    roles = Roles({(verb, "secrets") for verb in SECRETS.verbs})
    settings = load_settings(namespace="a,b", lease_namespace="ops")
    assert await missing_rights(cast("Any", roles), settings) == []
    with capture_logs() as logs:
        async with asyncio.timeout(60):
            await await_rights(cast("Any", roles), settings, retry_s=0.001)
    (line,) = logs
    assert line["event"] == "rights_limited"
    assert line["missing"] == (
        "get,create,patch,delete secrets in namespace a; "
        "get,create,patch,delete secrets in namespace b"
    )
    assert line["limits"] == "quorums with TLS or access control wait; all others go on"
    assert (await watchable_namespaces(cast("Any", roles), settings)).watched == ("a", "b")


async def test_rights_for_advice_about_kafka_are_asked_for_with_the_setting_alone() -> None:
    roles = cast("Any", Roles({("patch", "kafkaquorums/status")}))
    with capture_logs() as logs:
        await await_rights(roles, load_settings(namespace="a"), retry_s=0.001)
    assert logs == []
    with capture_logs() as logs:
        async with asyncio.timeout(60):
            await await_rights(roles, load_settings(namespace="a", kafka_advice=True), 0.001)
    (line,) = logs
    assert line["event"] == "rights_limited"
    assert "patch kafkaquorums/status.kraftquorum.io in namespace a" in line["missing"]


async def test_a_missing_crd_of_kafka_quorums_is_named_and_delays_nothing() -> None:
    for errors, text in (((NO_CRD,), "crds print --kafka-advice"), ((AWAY,), "cannot reach")):
        with capture_logs() as logs:
            await report_kafka_crd(cast("Any", FakeKube(*errors)))
        (line,) = logs
        assert line["event"] == "kafka_advice_delayed"
        assert text in line["why"]
    with capture_logs() as logs:
        await report_kafka_crd(cast("Any", FakeKube()))
    assert logs == []


async def test_a_namespace_that_is_gone_is_no_limit() -> None:
    roles = Namespaced("a")
    with capture_logs() as logs:
        await await_rights(cast("Any", roles), load_settings(namespace="a,b"), retry_s=0.001)
    assert logs == []


async def test_every_right_is_asked_for_once_in_every_namespace() -> None:
    for given, namespaces in ((None, [None]), ("a", ["a"]), ("a,b,a", ["a", "b"])):
        roles = Roles(set())
        await await_rights(cast("Any", roles), load_settings(namespace=given))
        wanted = [
            (verb, right.group, right.resource, namespace, None)
            for namespace in namespaces
            for right in WATCHED
            for verb in right.verbs
        ]
        place = "a" if given == "a" else "default"
        lease = ("coordination.k8s.io", "leases", place)
        wanted += [("create", *lease, None)]
        wanted += [(verb, *lease, "kraftquorum-operator") for verb in ("get", "update")]
        assert sorted(roles.asked, key=str) == sorted(wanted, key=str)


async def test_a_server_that_is_away_while_rights_are_asked_for_is_waited_for() -> None:
    roles = Roles(set(), AWAY, AWAY)
    with capture_logs() as logs:
        await await_rights(cast("Any", roles), load_settings(), retry_s=0)
    assert logs[0]["why"].startswith("the operator cannot reach the API server")
    assert logs[-1]["event"] == "startup_continued"


async def test_a_server_that_does_not_let_us_ask_for_rights_is_no_reason_to_wait() -> None:
    roles = Roles(set(), *[FORBIDDEN] * 2)
    with capture_logs() as logs:
        await await_rights(cast("Any", roles), load_settings(), retry_s=0)
    assert [line["event"] for line in logs] == ["rights_check_refused"]


@pytest.mark.parametrize("given", ["a,B", "a b", "-a", "a" * 64, "a,*"])
def test_a_namespace_that_cannot_be_one_is_refused_by_name(given: str) -> None:
    with pytest.raises(SettingsError, match=r"KRAFTQUORUM_NAMESPACE: .* is not the name"):
        load_settings(namespace=given)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (AWAY, "cannot reach the API server"),
        (NO_CRD, "crds print"),
        (FORBIDDEN, "token and roles"),
        (KubeUnavailableError(503, "x", "busy"), "answered with an error"),
    ],
)
def test_a_person_is_told_what_to_do(error: KubeError, says: str) -> None:
    assert says in explain(error)


async def test_the_page_about_installing_quotes_what_is_really_said() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations" / "install.md").read_text()
    quoted = re.findall(r"^\|`(the [^`]+)`\|", page, re.MULTILINE)
    said = [explain(error) for error in (AWAY, NO_CRD, FORBIDDEN)]
    roles = Roles({("delete", "pods")})
    missing = await missing_rights(cast("Any", roles), load_settings(namespace="a"))
    said.append(f"the operator's roles do not allow: {missing[0]}")
    assert len(quoted) == len(said)
    for words in quoted:
        assert any(one.startswith(words) for one in said), words
