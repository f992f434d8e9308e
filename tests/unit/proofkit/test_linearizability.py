"""The checker of histories: textbook cases, and every small history against all its orders."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofkit.linearizability import History, Operation, check

KEY = b"k"


def put(value: str | None, begin: float, end: float = math.inf) -> Operation[str]:
    return Operation(KEY, True, value, begin, end)


def get(value: str | None, begin: float, end: float) -> Operation[str]:
    return Operation(KEY, False, value, begin, end)


@pytest.mark.parametrize(
    "history",
    [
        [],
        [get(None, 0, 1)],
        [put("a", 0, 1), get("a", 2, 3)],
        [put("a", 0, 3), get("a", 1, 2)],
        [put("a", 0, 3), get(None, 1, 2)],
        [put("a", 0, 1), put("b", 0, 1), get("a", 2, 3), get("a", 4, 5)],
        [put("a", 0, 1), put(None, 2, 3), get(None, 4, 5)],
        [put("a", 0), get(None, 1, 2), get("a", 3, 4)],
        [put("a", 0), get(None, 1, 2), get(None, 3, 4)],
        [put("a", 0, 2), get(None, 2, 3)],
    ],
)
def test_histories_of_an_atomic_register(history: list[Operation[str]]):
    assert check(history) is None


@pytest.mark.parametrize(
    "history",
    [
        [get("a", 0, 1)],
        [put("a", 0, 1), get(None, 2, 3)],
        [put("a", 0, 1), put("b", 2, 3), get("a", 4, 5)],
        [put("a", 0, 9), get("a", 1, 2), get(None, 3, 4)],
        [put("a", 0), get("a", 1, 2), get(None, 3, 4)],
        [put("a", 0, 1), put("b", 0, 1), get("a", 2, 3), get("b", 4, 5)],
        [get("a", 0, 1), put("a", 2, 3)],
        [put("a", 0, 1), put(None, 2, 3), get("a", 4, 5)],
    ],
)
def test_histories_that_no_atomic_register_has(history: list[Operation[str]]):
    violation = check(history)
    assert violation is not None
    assert violation.key == KEY
    assert violation.stuck


def test_keys_do_not_know_each_other():
    other = Operation(b"other", True, "x", 0, 1)
    assert check([other, get(None, 2, 3)]) is None
    assert check([other, Operation(b"other", False, None, 2, 3)]) is not None


def by_all_orders(history: list[Operation[str]]) -> bool:
    """The definition: some of the open writes and all of the rest, in any order that fits."""
    closed = [one for one in history if not math.isinf(one.returned_at)]
    open_ = [one for one in history if math.isinf(one.returned_at)]
    chosen = itertools.chain.from_iterable(
        itertools.combinations(open_, count) for count in range(len(open_) + 1)
    )
    return any(fits(order) for some in chosen for order in itertools.permutations([*closed, *some]))


def fits(order: tuple[Operation[str], ...]) -> bool:
    value: str | None = None
    for at, one in enumerate(order):
        if any(later.returned_at < one.called_at for later in order[at + 1 :]):
            return False
        if one.is_write:
            value = one.value
        elif one.value != value:
            return False
    return True


values = st.sampled_from(["a", "b", None])
operations = st.builds(
    lambda is_write, value, begin, takes, is_open: Operation(
        KEY, is_write, value, begin, math.inf if is_open and is_write else begin + takes
    ),
    st.booleans(),
    values,
    st.integers(0, 6),
    st.integers(1, 5),
    st.booleans(),
)


def written_once(history: list[Operation[str]]) -> list[Operation[str]]:
    """The same with another value for each write; gets see one of them."""
    named: list[Operation[str]] = []
    for number, one in enumerate(history):
        value = f"value {number}" if one.is_write else one.value
        named.append(replace(one, value=value))
    written = [one.value for one in named if one.is_write]
    seen = {"a": written[0] if written else "a", "b": written[-1] if written else "b", None: None}
    return [one if one.is_write else replace(one, value=seen[one.value]) for one in named]


@given(st.lists(operations, max_size=6))
@settings(max_examples=600, deadline=None)
def test_it_says_of_values_written_once_what_trying_all_orders_says(
    history: list[Operation[str]],
):
    once = written_once(history)
    assert (check(once) is None) == by_all_orders(once)


@given(st.lists(operations, max_size=5))
@settings(max_examples=300, deadline=None)
def test_it_says_what_trying_all_orders_says(history: list[Operation[str]]):
    assert (check(history) is None) == by_all_orders(history)


def test_operations_are_collected_with_their_outcomes():
    history: History[str] = History()
    done = history.called(KEY, 0, is_write=True, value="a")
    unknown = history.called(KEY, 1, is_write=True, value="b")
    refused = history.called(KEY, 1, is_write=True, value="c")
    lost = history.called(KEY, 1, is_write=False)
    read = history.called(KEY, 2, is_write=False, client="reader")
    history.returned(done, 3)
    history.failed(refused)
    history.returned(read, 4, value="b")
    assert unknown != lost
    found = history.all()
    assert sorted((one.value or "", one.returned_at) for one in found) == [
        ("a", 3),
        ("b", 4),
        ("b", math.inf),
    ]
    assert check(found) is None


def test_a_violation_says_what_does_not_fit():
    violation = check([put("a", 0, 1), put("b", 2, 3), get("a", 4, 5)])
    assert str(violation) == (
        "b'k' holds 'a'; 0 fit, but not: 0 to 1  b'k': put 'a'; 2 to 3  b'k': put 'b'; "
        "4 to 5  b'k': get gives 'a'"
    )


def test_a_busy_key_of_many_overlapping_writes_takes_no_search():
    """Hundreds of writes under way at once: trying orders would never end."""
    history: list[Operation[str]] = [get(None, 0, 1)]
    for number in range(500):
        history += [put(f"{number}", 0, 2000), get(f"{number}", number * 2 + 1, number * 2 + 2)]
    assert check(history) is None
    assert check([*history, get("7", 2100, 2101)]) is not None


def test_a_long_history_of_a_key_whose_values_come_again_is_searched():
    history: list[Operation[str]] = []
    for number in range(0, 400, 2):
        value = "ab"[number // 2 % 2]
        history += [put(value, number, number + 0.5), get(value, number + 1, number + 2)]
    assert check(history) is None
    assert check([*history, get(None, 500, 501)]) is not None
