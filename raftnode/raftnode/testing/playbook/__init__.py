"""A few replicas scripted by hand: what one says is delivered, dropped or held as the script wants.

Nothing is random and nothing happens by itself: no message arrives, no disk is
flushed and no time passes unless the script says so.

- `table`: `Playbook`, the replicas and the messages between them;
- `seat`: one replica with its disk, carrying the core's effects out;
- `show`: messages, effects and roles as short words;
- `script`: the commands of golden scenarios in `tests/scenarios/testdata`.
"""

from raftnode.testing.playbook.script import run_script
from raftnode.testing.playbook.seat import Seat
from raftnode.testing.playbook.table import Message, Playbook

__all__ = ["Message", "Playbook", "Seat", "run_script"]
