"""Runs a few replicas by a script, which delivers, drops or holds each message.

Nothing is random and nothing happens by itself: a message arrives, a disk is flushed and
time passes only if the script says so.

- `book`: `Playbook`, all actions of a script;
- `scripted_quorum`: the replicas and the messages between them;
- `message`: one message, and the names of replicas;
- `scripted_node`: one replica with its disk, carrying the core's effects out;
- `show`: messages, effects and roles as short words;
- `script`: the commands of golden scenarios in `tests/scenarios/testdata`.
"""

from proofkit.playbook.book import Playbook
from proofkit.playbook.message import Message, key_of
from proofkit.playbook.script import run_script
from proofkit.playbook.scripted_node import ScriptedNode

__all__ = ["Message", "Playbook", "ScriptedNode", "key_of", "run_script"]
