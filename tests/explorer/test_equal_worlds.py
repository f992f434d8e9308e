"""What is left out of a world's form to find equal ones: nothing that anybody could see."""

import pytest

from raftnode.testing.explorer.bounds import Bounds
from raftnode.testing.explorer.world import State, World


class PlainWorld(World):
    """Drops no answer and renumbers no Fetch."""

    def _tidied(self, state: State, *, fetches: bool) -> State:
        return state


def seen_within(world: World, depth: int) -> set[object]:
    """What disks, roles and high watermarks are reached within so many actions."""
    layer, met = {world.first()}, set[State]()
    seen: set[object] = {outside(world, state) for state in layer}
    for _ in range(depth):
        met |= layer
        layer = {
            after
            for state in layer
            for action in world.actions(state)
            if (after := world.apply(state, action)) not in met
        }
        seen |= {outside(world, state) for state in layer}
    return seen


def outside(world: World, state: State) -> object:
    # Not what is left of the budgets: losing an answer that nobody takes wastes them, no more.
    found: list[object] = [state.leaders]
    for index in range(len(world.keys)):
        local = world.local(state, index)
        volume = local.volume
        logs = [
            tuple((batch.base_offset, batch.epoch) for batch in log)
            for log in (volume.log, volume.durable)
        ]
        role = None
        if local.core is not None:
            replica = local.core.replica
            role = (type(replica.role).__name__, replica.leader, replica.high_watermark)
        found.append((volume.state, *logs, volume.incarnation, role))
    return tuple(found)


@pytest.mark.parametrize(
    ("bounds", "depth"),
    [
        (Bounds(voters=2, elections=1, crashes=1, writes=1), 7),
        (Bounds(voters=2, elections=0, losses=1, duplicates=2, writes=1), 14),
        (Bounds(voters=3, elections=1, standing=(1,)), 9),
    ],
    ids=str,
)
def test_dropped_answers_and_renumbered_fetches_change_nothing(bounds: Bounds, depth: int):
    tidy, plain = seen_within(World(bounds), depth), seen_within(PlainWorld(bounds), depth)
    assert tidy == plain
    assert len(tidy) > 8
