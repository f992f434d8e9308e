"""Golden scripts: commands after `>`, and below each the replicas' actions.

A script is run from its commands alone; the text that comes out must be the text
that was read. `#` begins a comment, which is kept. Commands:

    quorum 1 2 3            form a quorum that 1 leads, quietly
    latch 1 2 3             give blank replicas the latch, no more
    observer 4              a replica that fetches
    deliver [kind] [a>b]    deliver what waits now (kinds: pre-vote, vote, begin, end, fetch,
                            and each with -answer)
    drop [kind] [a>b]       lose it
    repeat [kind] [a>b]     duplicate it
    pending                 show what waits
    settle                  deliver and flush until nothing happens any more
    run <ms>                the same while time passes
    wait <ms> [names]       time passes, nothing is delivered
    stand <name>            time passes until it asks for votes
    impatient <name>        it asks for votes now
    elect <name>            everybody misses the leader and this one wins
    flush <name>            its log becomes durable
    no-flush <name>         it is not flushed by settle and run any more
    crash <name> [keep]     it dies and loses what was not flushed (keep: does not)
    restart <name>          it starts again
    gates                   hellos are judged from now on, and every start greets the voters
    copy <name>             a copy of its disk is made
    put-back <name>         it finds that copy in place of its disk
    wipe <name>             its disk is lost; 3 comes back as 3'
    isolate <names>, heal   cut off, reconnect
    append <name> <text>    a client's record
    add <name> <voter> [replaces=<voter>]
    remove <name> <voter>
    confirm <name>          a confirmed answer
    transfer <name> [<to>]  a leadership transfer
    disk <name> low|free
    snapshot <name> [trim]  it takes a snapshot of what it has applied (trim: and lets go of the
                            log behind it)
    pieces <bytes>          how much of a snapshot goes into one answer
    storage on|off          whether settle and run let the disks store and read snapshots
    store [damaged]         the disks do that once (damaged: and read what is none)
    state                   one line for each replica
"""

from __future__ import annotations

from collections.abc import Callable

from proofkit.playbook.book import Playbook
from proofkit.playbook.message import Message
from proofkit.playbook.scripted_node import ScriptedNode
from proofkit.playbook.show import show_effect, show_message
from proofkit.simulator.disk import SimDisk
from raftnode.core.effects import Effect


class ScriptError(ValueError):
    """A line of a script that cannot be run."""


def run_script(text: str) -> str:
    """Run a script's commands and return the script with the real actions.

    Raises:
        ScriptError: an unknown command, with its line.
    """
    runner = _Runner()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(">"):
            lines.append(line)
            lines.extend(f"  {said}" for said in runner.run(line[1:].split()))
        elif line.startswith("#") or not line.strip():
            lines.append(line.rstrip())
        elif not line.startswith("  "):
            raise ScriptError(f"neither a command, a comment nor a result: {line!r}")
    return "\n".join(lines) + "\n"


class _Runner:
    def __init__(self) -> None:
        self.book = Playbook()
        self.said: list[str] = []
        self.copies: dict[str, SimDisk] = {}
        self.book.watch = self._watch
        self.book.on_delivery = self._delivery
        self.book.on_refusal = self._refusal

    def _watch(self, node: ScriptedNode, effect: Effect) -> None:
        shown = show_effect(effect)
        if shown is not None:
            self.said.append(f"{node.name} {shown}")

    def _refusal(self, said: str) -> None:
        self.said.append(said)

    def _delivery(self, message: Message) -> None:
        # Fetches that bring nothing would drown the rest.
        if not message.kind.startswith("fetch"):
            self.said.append(f"{show_message(message)}:")

    def run(self, words: list[str]) -> list[str]:
        """Run one command; return what happened."""
        self.said = []
        name, *arguments = words
        command = self._commands().get(name)
        if command is None:
            raise ScriptError(f"no such command: {' '.join(words)}")
        command(arguments)
        return self.said

    def _commands(self) -> dict[str, Callable[[list[str]], object]]:
        book = self.book
        return {
            "quorum": self._quorum,
            "latch": self._latch,
            "observer": lambda words: book.observer(words[0]),
            "deliver": lambda words: book.deliver(*_filter(words)),
            "drop": lambda words: book.drop(*_filter(words)),
            "repeat": lambda words: book.repeat(*_filter(words)),
            "pending": lambda _: self.said.extend(show_message(m) for m in book.pending),
            "settle": lambda _: book.settle(),
            "run": lambda words: book.run(int(words[0])),
            "wait": lambda words: book.wait(int(words[0]), *words[1:]),
            "stand": lambda words: book.stand(words[0]),
            "impatient": lambda words: book.impatient(words[0]),
            "elect": lambda words: book.elect(words[0]),
            "flush": lambda words: book[words[0]].flush(book.now_ms),
            "no-flush": self._no_flush,
            "crash": lambda words: book.crash(words[0], keep_unflushed="keep" in words),
            "restart": lambda words: book.restart(words[0]),
            "gates": lambda _: book.close_gates(),
            "copy": self._copy,
            "put-back": lambda words: book.put_back(words[0], self.copies.pop(words[0])),
            "wipe": lambda words: book.wipe(words[0]),
            "isolate": lambda words: book.isolate(*words),
            "heal": lambda _: book.heal(),
            "append": lambda words: book.append(words[0], words[1].encode()),
            "add": self._add,
            "remove": lambda words: book.remove(words[0], words[1]),
            "reassign": lambda words: book.reassign(words[0], *words[1:]),
            "upgrade": lambda words: book.upgrade(words[0], int(words[1])),
            "confirm": lambda words: book.confirm(words[0]),
            "transfer": lambda words: book.transfer(*words),
            "disk": lambda words: book.disk_space(words[0], low=words[1] == "low"),
            "snapshot": self._snapshot,
            "pieces": self._pieces,
            "storage": self._storage,
            "store": lambda words: book.work_storage(damaged="damaged" in words),
            "state": lambda _: self.said.extend(book.describe()),
        }

    def _quorum(self, words: list[str]) -> None:
        self.book.latch(*words)
        self.book.impatient(words[0])
        self.book.settle()
        self.said = self.book.describe()

    def _latch(self, words: list[str]) -> None:
        version = next((int(w.split("=")[1]) for w in words if w.startswith("version=")), 2)
        self.book.latch(*(w for w in words if "=" not in w), raft_version=version)

    def _copy(self, words: list[str]) -> None:
        self.copies[words[0]] = self.book[words[0]].saved()

    def _no_flush(self, words: list[str]) -> None:
        self.book[words[0]].flushes = False

    def _snapshot(self, words: list[str]) -> None:
        applied = self.book[words[0]].replica.applicable
        self.book.snapshot(words[0], trim_to=applied if "trim" in words else None)

    def _pieces(self, words: list[str]) -> None:
        self.book.piece_bytes = int(words[0])

    def _storage(self, words: list[str]) -> None:
        self.book.disks_work = words[0] == "on"

    def _add(self, words: list[str]) -> None:
        replaces = next((w.split("=")[1] for w in words if w.startswith("replaces=")), None)
        self.book.add(words[0], words[1], replaces=replaces)


def _filter(words: list[str]) -> tuple[str, str, str]:
    kind = next((word for word in words if ">" not in word), "")
    source, _, target = next((word for word in words if ">" in word), ">").partition(">")
    return kind, source, target
