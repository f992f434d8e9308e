"""Tasks are held, their failures heard of, their end waited for."""

import asyncio
import gc

from raftnode.runtime.process.tasks import Tasks


async def wait_for_ever() -> None:
    await asyncio.get_running_loop().create_future()


async def fail() -> None:
    raise LookupError("x")


async def test_a_task_without_another_reference_lives_on():
    done = asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0)
        done.set()

    tasks = Tasks(lambda _: None)
    tasks(work(), name="work")
    gc.collect()
    async with asyncio.timeout(2):
        await done.wait()


async def test_a_failure_is_reported():
    failures = []
    tasks = Tasks(failures.append)
    tasks(fail(), name="fails")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [type(error) for error in failures] == [LookupError]


async def test_cancelling_all_waits_and_is_no_failure():
    failures = []
    tasks = Tasks(failures.append)
    task = tasks(wait_for_ever(), name="waits")
    await asyncio.sleep(0)
    await tasks.cancel_all()
    assert task.cancelled()
    assert failures == []
