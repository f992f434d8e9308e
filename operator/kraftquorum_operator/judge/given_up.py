"""Volumes that the operator has given up, as noted on the StatefulSet: how many, and when.

If all volumes of a storage class or a machine fail, the operator would give up one volume after the
other without end. It notes each volume before it deletes the claim, so that an operator that
restarts knows the number. Pure.
"""

from __future__ import annotations

from kraftquorum_operator.model.observation import GivenUp, Observation

HOUR_MS = 3_600_000
PAUSES_MS = (0, 60_000, 240_000, 960_000, HOUR_MS)
"""The pause before the next volume is given up, by how many new volumes in a row never became a
voter's."""
HOURLY_MAX = 4
"""How many volumes of one replica are given up within an hour."""
FAIL_IN_A_ROW = 2
"""This many failures in a row are reported."""


def in_a_row(notes: tuple[GivenUp, ...]) -> int:
    """How many of the last volumes, newest first, never became a voter's."""
    count = 0
    for note in sorted(notes, key=lambda note: note.age_ms):
        if not note.unused:
            break
        count += 1
    return count


def wait_ms(notes: tuple[GivenUp, ...]) -> int:
    """How long the next volume of a replica must wait before it is given up; 0: not at all."""
    ages = sorted(note.age_ms for note in notes)
    if not ages:
        return 0
    pause = PAUSES_MS[min(in_a_row(notes), len(PAUSES_MS) - 1)] - ages[0]
    capped = HOUR_MS - ages[HOURLY_MAX - 1] if len(ages) >= HOURLY_MAX else 0
    return max(0, pause, capped)


def failing_in_a_row(observation: Observation) -> tuple[tuple[int, int], ...]:
    """Replicas whose new volumes failed one after the other, as ordinal and how many."""
    noted = observation.statefulset.given_up if observation.statefulset else ()
    counted = tuple((ordinal, in_a_row(notes)) for ordinal, notes in noted)
    return tuple(
        (ordinal, count)
        for ordinal, count in counted
        if count >= FAIL_IN_A_ROW
        and ((claim := observation.claim(ordinal)) is None or claim.record is None)
    )
