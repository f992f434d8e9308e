"""Worlds in which new disks announce themselves and join only when an AddVoter names them (S5)."""

from __future__ import annotations

import itertools

import pytest

from proofkit.simulator.run import announces, run_seed
from raftnode.core.membership import discovery
from raftnode.core.roles import Blank

pytestmark = pytest.mark.rule("S5", "P53", "P55")

SEEDS = 8


def test_new_disks_join_by_being_added_and_every_promise_holds(monkeypatch: pytest.MonkeyPatch):
    take_answer, joined = discovery.take_answer, 0

    def count(replica, role, source, response) -> None:
        nonlocal joined
        take_answer(replica, role, source, response)
        if not isinstance(replica.role, Blank):
            assert response.join == replica.cluster_id
            assert response.leader == source
            joined += 1

    monkeypatch.setattr(discovery, "take_answer", count)
    added = 0
    for seed in itertools.islice(filter(announces, itertools.count()), SEEDS):
        added += run_seed(seed).changes["add"]
    assert added > SEEDS
    assert joined > SEEDS // 2
