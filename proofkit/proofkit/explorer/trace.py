"""A run of a world as text that can be read and replayed.

A trace has a line for each action, beginning with its number, and below it the facts that
the cores told, in the form of the simulator's trace. `replay` goes the same way again with
the core as it is now, and shows what is seen on it.
"""

from __future__ import annotations

from collections.abc import Iterable

from proofkit.explorer.action import Action
from proofkit.explorer.bounds import Bounds
from proofkit.explorer.local import Letter
from proofkit.explorer.world import State, World
from proofkit.simulator.invariants import InvariantError
from raftnode.core.effects import Fact
from raftnode.core.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    VoteRequest,
    VoteResponse,
)


def label(world: World, state: State, action: Action) -> str:
    """Return an action in words, unique among the actions of one state."""
    index = action.index
    who = f"{index} {action.kind}"
    match action.kind:
        case "deliver" | "lose":
            letter = world.letter(action.detail)
            target = letter.target if letter.target is not None else "any"
            if action.kind == "lose":
                return f"{index} lose to {target}: {letter_text(letter)}"
            how = f" ({action.variant})" if action.variant else ""
            return f"{index} deliver{how} from {letter.source}: {letter_text(letter)}"
        case "crash":
            local = world.local(state, index)
            kept = local.volume.after_crash()[action.detail].log
            last = f"{kept[-1].end_offset} of epoch {kept[-1].epoch}" if kept else "0"
            return f"{who} keeps the log up to {last}"
        case "add" | "remove":
            return f"{who} {action.detail}"
        case "unanswered" if action.variant:
            return f"{who} {action.variant} to {action.detail}"
        case "election" if action.variant == "released":
            return f"{who} and no replica calls it any more"
        case _:
            return who


def letter_text(letter: Letter) -> str:
    """A message in one line."""
    request, response = letter.request, letter.response
    gone = "" if letter.awaited else " of a process that is gone"
    match request:
        case VoteRequest():
            kind = "PreVote" if request.pre_vote else "Vote"
            log = f"log={request.last.end_offset}/{request.last.epoch}"
            text = f"{kind} epoch={request.epoch} {log}"
        case FetchRequest():
            text = (
                f"Fetch#{request.sequence} epoch={request.epoch} from={request.fetch_offset} "
                f"acknowledged={request.acknowledged_offset} "
                f"last={request.last_fetched_epoch} hw={request.high_watermark} "
                f"incarnation={request.incarnation}"
            )
        case FetchSnapshotRequest(snapshot=snapshot):
            which = f"{snapshot.end_offset}/{snapshot.epoch}"
            text = (
                f"FetchSnapshot epoch={request.epoch} of={which} position={request.position} "
                f"token={request.round_token}"
            )
        case _:
            name = type(request).__name__.removesuffix("Request")
            text = f"{name} epoch={request.epoch}"
    if response is None:
        return text + gone
    answer = f"{text} answered {response.error.name} epoch={response.epoch}"
    match response:
        case VoteResponse():
            return f"{answer} granted={response.granted} leader={response.leader}"
        case FetchResponse():
            runs = [f"{b.base_offset}-{b.last_offset}/{b.epoch}" for b in response.batches]
            batches = ",".join(runs)
            diverging = response.diverging
            parts = f" diverging={diverging.end_offset}/{diverging.epoch}" if diverging else ""
            if response.snapshot is not None:
                parts += f" snapshot={response.snapshot.end_offset}/{response.snapshot.epoch}"
            return f"{answer} hw={response.high_watermark} batches=[{batches}]{parts}"
        case _:
            return f"{answer} leader={response.leader}"


def trace(world: World, actions: Iterable[Action]) -> list[str]:
    """Return the lines of a run in this world, with the broken invariant at its end."""
    state, lines = world.first(), list[str]()
    for number, action in enumerate(actions, 1):
        lines.append(f"{number:4d} > {label(world, state, action)}")
        try:
            state = world.apply(state, action)
        except AssertionError as broken:
            lines.extend(_facts(world, number))
            lines.append(f"{number:4d} ! {_name(broken)}{broken}")
            return lines
        lines.extend(_facts(world, number))
    return lines


def _name(broken: AssertionError) -> str:
    return "" if isinstance(broken, InvariantError) else "CoreAssertion: "


def _facts(world: World, number: int) -> list[str]:
    lines: list[str] = []
    for step in world.last:
        for effect in step.effects:
            if isinstance(effect, Fact):
                fields = " ".join(f"{name}={value}" for name, value in effect.fields)
                lines.append(f"{number:7d} {step.before.index} {effect.name} {fields}")
    return lines


def replay(bounds: Bounds, lines: Iterable[str]) -> list[str]:
    """Replay a trace; return the trace of the run with the core as it is now.

    Raises:
        ValueError: an action of the trace cannot happen any more; says which.
    """
    world = World(bounds)
    state, actions = world.first(), list[Action]()
    for line in lines:
        number, arrow, wanted = line.strip().partition(" > ")
        if not arrow or not number.strip().isdecimal():
            continue
        matching = [a for a in world.actions(state) if label(world, state, a) == wanted]
        if not matching:
            raise ValueError(f"action {number} cannot happen here: {wanted}")
        actions.append(matching[0])
        try:
            state = world.apply(state, matching[0])
        except AssertionError:
            break
    return trace(world, actions)
