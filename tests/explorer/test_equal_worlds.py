"""What is left out of a world's form to find equal ones: nothing that could be seen."""

import pytest

from proofkit.explorer.bounds import Bounds
from proofkit.explorer.world import State, World


class PlainWorld(World):
    """Drops no answer and renumbers no Fetch."""

    def _tidied(self, state: State, *, fetches: bool) -> State:
        return state


def seen_within(world: World, depth: int) -> dict[object, int]:
    """What disks, roles and high watermarks are reached, each after how few actions."""
    layer, met = {world.first()}, set[State]()
    seen: dict[object, int] = {outside(world, state): 0 for state in layer}
    for length in range(1, depth + 1):
        met |= layer
        layer = {
            after
            for state in layer
            for action in world.actions(state)
            if (after := world.apply(state, action)) not in met
        }
        for state in layer:
            seen.setdefault(outside(world, state), length)
    return seen


def outside(world: World, state: State) -> object:
    # Not what is left of the budgets: losing an answer that no replica takes wastes them, no more.
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
        (Bounds(voters=2, elections=0, losses=1, duplicates=1, writes=2), 14),
        (Bounds(voters=2, elections=1, resignations=1), 7),
        (Bounds(voters=3, elections=1, standing=(1,)), 9),
    ],
    ids=str,
)
def test_dropped_answers_and_renumbered_fetches_change_nothing(bounds: Bounds, depth: int):
    tidy, plain = seen_within(World(bounds), depth), seen_within(PlainWorld(bounds), depth)
    assert tidy == plain
    assert len(tidy) > 8


def test_no_fetch_has_a_higher_number_than_its_sender_counts():
    """Else the next Fetch would look like an old one."""
    world = World(Bounds(voters=2, elections=0, losses=1, duplicates=1, writes=1))
    layer, met = {world.first()}, set[State]()
    while layer:
        met |= layer
        layer = {world.apply(s, a) for s in layer for a in world.actions(s)} - met
    assert len(met) > 100
    for state in met:
        found = {pair for number in state.locals for pair in world.locals.all[number].fetches}
        for index in range(len(world.keys)):
            own = world.local(state, index).replica.fetch_sequence
            assert own == max(sequence for fetcher, sequence in found if fetcher == index)
