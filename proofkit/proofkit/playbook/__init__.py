"""A few replicas scripted by hand: what one says is delivered, dropped or held as the script wants.

Nothing is random and nothing happens by itself: no message arrives, no disk is
flushed and no time passes unless the script says so.

- `book`: `Playbook`, all that a script can make happen;
- `table`: the replicas, and what becomes of the messages between them;
- `message`: one message, and the names of replicas;
- `seat`: one replica with its disk, carrying the core's effects out;
- `show`: messages, effects and roles as short words;
- `script`: the commands of golden scenarios in `tests/scenarios/testdata`.
"""

from proofkit.playbook.book import Playbook
from proofkit.playbook.message import Message, key_of
from proofkit.playbook.script import run_script
from proofkit.playbook.seat import Seat

__all__ = ["Message", "Playbook", "Seat", "key_of", "run_script"]
