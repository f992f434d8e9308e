"""Each request to the core has one answer; a request that no client waits for is given up."""

import asyncio

import pytest

from raftnode.api.errors import refusal
from raftnode.core.effects import Done, Refused
from raftnode.core.events import ConfirmRequested, RequestAbandoned
from raftnode.core.reasons.refusals import (
    LeadershipEndedBeforeCommit,
    NotTheLeader,
    Refusal,
    TooMuchUncommitted,
)
from raftnode.core.types import Endpoint, Offset
from raftnode.errors import RequestError
from raftnode.runtime.inquiries import Inquiries


@pytest.fixture
def posted():
    return []


@pytest.fixture
def inquiries(posted, replica_key):
    return Inquiries(posted.append, lambda: (replica_key, Endpoint("h", 1)))


def ask(inquiries, timeout_ms=5000):
    return asyncio.get_running_loop().create_task(
        inquiries.ask(
            lambda n: ConfirmRequested(n, True), timeout_ms=timeout_ms, late_error="TIMED_OUT"
        )
    )


async def test_an_answer_reaches_who_asked(inquiries, posted):
    first, second = ask(inquiries), ask(inquiries)
    await asyncio.sleep(0)
    one, two = (event.request_id for event in posted)
    assert one != two
    inquiries.answered(Done(two))
    inquiries.answered(Done(one))
    assert (await first, await second) == (Done(one), Done(two))
    assert all(isinstance(event, ConfirmRequested) for event in posted)


async def test_a_refusal_reaches_who_asked_with_its_name_and_outcome(inquiries, posted):
    task = ask(inquiries)
    await asyncio.sleep(0)
    inquiries.refused(
        Refused(posted[0].request_id, LeadershipEndedBeforeCommit(Offset(7)), "unknown")
    )
    with pytest.raises(RequestError) as caught:
        await task
    assert (caught.value.error, caught.value.outcome) == ("LEADERSHIP_LOST", "unknown")


def test_every_refusal_of_the_core_has_its_error_in_the_api():
    for kind in Refusal:
        assert refusal(kind.value, "why").error == kind.value


def test_a_refusal_has_its_name_and_its_sentence(inquiries):
    error = inquiries.error_of(Refused(1, TooMuchUncommitted(8)))
    assert error.error == "TOO_MUCH_UNCOMMITTED"
    assert str(error) == "8 bytes are appended and not yet committed: ask again later"


def test_who_leads_is_said_to_who_asked_the_wrong_node(inquiries, replica_key):
    error = inquiries.error_of(Refused(1, NotTheLeader()))
    assert (error.leader, error.leader_api) == (replica_key, Endpoint("h", 1))


async def test_a_request_that_takes_too_long_is_abandoned(inquiries, posted):
    with pytest.raises(RequestError) as caught:
        await ask(inquiries, timeout_ms=1)
    assert caught.value.error == "TIMED_OUT"
    assert posted[1:] == [RequestAbandoned(posted[0].request_id)]
    inquiries.answered(Done(posted[0].request_id))  # late, and for no request


async def test_a_request_whose_client_left_is_abandoned(inquiries, posted):
    task = ask(inquiries)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert posted[1:] == [RequestAbandoned(posted[0].request_id)]
    assert inquiries._waiting == {}


async def test_when_the_node_stops_no_client_waits_any_longer(inquiries):
    task = ask(inquiries)
    await asyncio.sleep(0)
    inquiries.fail_all(refusal("SHUTTING_DOWN", "stop"))
    with pytest.raises(RequestError):
        await task
