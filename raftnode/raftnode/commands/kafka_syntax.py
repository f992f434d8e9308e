"""Command lines as users of Kafka's `kafka-metadata-quorum.sh` and readers of the KIPs type them.

Kafka's parser (argparse4j) takes `--bootstrap-server` before the command, and abbreviations that
name one option or command. The KIPs also write `--describe replication`, `--add-voter` and
`--remove-voter` (P61). Typer takes none of these, so the words are rearranged before it parses
them. Unlike Kafka's tool, this one refuses two values for what a change is about: the last one
would win silently, and another voter than the one in front would be removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperGroup, TyperOption

from raftnode.commands.output import usage

FLAG_COMMANDS = {
    "--describe": "describe",
    "--add-voter": "add-voter",
    "--remove-voter": "remove-voter",
}
"""KIP-856's and the KIP-595 diff's spelling of commands."""

OTHER_NAMES = {"remove-controller": "remove-voter"}
"""KIP-853's names of commands; `add-controller` reads a controller's own settings file."""

LAST_WINS = frozenset(
    {
        "bootstrap_server",
        "ca_file",
        "certificate_file",
        "hosts_file",
        "key_file",
        "server_name",
        "timeout_ms",
        "token_file",
    }
)
"""Options that say how to ask and not what; given twice, the last value counts, as in Kafka."""

HELP = frozenset({"-h", "--help"})

DESCRIBE_WORDS = {"status": "--status", "replication": "--replication"}
"""What may follow `--describe`; the status if nothing does."""

DESCRIBE_FLAGS = frozenset({*DESCRIBE_WORDS.values(), "--json", "--help"})


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """An option of one command: its parameter, and whether a value follows it."""

    name: str
    takes_value: bool


Options = Mapping[str, OptionSpec]
"""By spelling, as `--replica-id` or `-i`."""


class KafkaSyntax(TyperGroup):
    """A group of commands that takes those spellings."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Rearrange the words, then parse them."""
        commands = {
            name: dict(_options(command.get_params(ctx))) for name, command in self.commands.items()
        }
        try:
            arranged = arrange(args, commands)
        except ValueError as error:
            raise usage(str(error)) from None
        return super().parse_args(ctx, arranged)


def _options(parameters: Iterable[object]) -> Iterator[tuple[str, OptionSpec]]:
    for parameter in parameters:
        if isinstance(parameter, TyperOption):
            spec = OptionSpec(parameter.name, takes_value=not parameter.is_flag)
            yield from ((spelling, spec) for spelling in parameter.opts)


def arrange(arguments: Sequence[str], commands: Mapping[str, Options]) -> list[str]:
    """Put the command first, then all options with their full names.

    Raises:
        ValueError: no command is named, or an option is unknown, ambiguous or given twice.
    """
    if not arguments:
        return []
    everything = {name: spec for options in commands.values() for name, spec in options.items()}
    place = _command_place(arguments, everything)
    if place is None:
        return ["--help"]
    word = arguments[place]
    others = [*arguments[:place], *arguments[place + 1 :]]
    command = FLAG_COMMANDS.get(word) or _command(word, commands)
    flags = DESCRIBE_WORDS if word == "--describe" else {}
    arranged = list(_arrange_options(others, commands[command], flags))
    if flags and not DESCRIBE_FLAGS.intersection(arranged):
        arranged.insert(0, "--status")
    return [command, *arranged]


def _command_place(arguments: Sequence[str], options: Options) -> int | None:
    """Where the command stands; None: help is asked for before any command."""
    place = 0
    while place < len(arguments):
        word = arguments[place]
        if word in HELP:
            return None
        if word in FLAG_COMMANDS or not word.startswith("-"):
            return place
        spelling, equals, value = _split(word, options)
        spec = options.get(_full(spelling, options))
        if spec is None:
            raise ValueError(f"no such option before the command: {spelling}")
        place += 2 if spec.takes_value and not (equals or value) else 1
    raise ValueError("no command given; expected describe, add-voter, remove-voter or another")


def _command(word: str, commands: Mapping[str, Options]) -> str:
    if word == "add-controller":
        raise ValueError("add-controller: use add-voter with --replica-id and --replica-uuid")
    names = {name: name for name in commands} | OTHER_NAMES
    fitting = {names[name] for name in names if name == word or name.startswith(word)}
    if word not in names and len(fitting) != 1:
        expected = ", ".join(sorted(fitting or commands))
        raise ValueError(f"no such command: {word!r}; expected one of {expected}")
    return names.get(word) or fitting.pop()


def _arrange_options(
    words: Sequence[str], options: Options, flags: Mapping[str, str]
) -> Iterator[str]:
    """Give each option its full name; a word that stands for a flag is that flag, if no value."""
    given: dict[str, tuple[str, str]] = {}
    rest = iter(words)
    for original in rest:
        word = "--help" if original in HELP else flags.get(original, original)
        if word == "--":
            yield word
            yield from rest
            return
        name, separator, value = _split(word, options)
        spelling = _full(name, options)
        yield f"{spelling}{separator}{value}"
        spec = options.get(spelling)
        if spec is None or not spec.takes_value:
            continue
        if not (separator or value):
            following = next(rest, None)
            if following is None:
                return  # the parser says what is missing
            yield (value := following)
        _refuse_two_values(given, spec, spelling, value)


def _split(word: str, options: Options) -> tuple[str, str, str]:
    """An option, the equals sign and the value that are in one word, as `--a=1` and `-a1` have."""
    if word.startswith("--"):
        return word.partition("=")
    short = options.get(word[:2])
    has_value = word.startswith("-") and short is not None and short.takes_value
    return (word[:2], "", word[2:]) if has_value else (word, "", "")


def _full(spelling: str, options: Options) -> str:
    """The full name of a long option's unambiguous beginning; else the spelling itself."""
    if spelling in options or not spelling.startswith("--") or spelling == "--":
        return spelling
    fitting = sorted(name for name in options if name.startswith(spelling))
    if len({options[name].name for name in fitting}) > 1:
        raise ValueError(f"ambiguous option: {spelling} could be {', '.join(fitting)}")
    return fitting[0] if fitting else spelling


def _refuse_two_values(
    given: dict[str, tuple[str, str]], spec: OptionSpec, spelling: str, value: str
) -> None:
    before = given.setdefault(spec.name, (spelling, value))
    if spec.name in LAST_WINS:
        if {before[0], spelling} == {"--bootstrap-server", "--bootstrap-controller"}:
            raise ValueError(f"{spelling}: not allowed with {before[0]}")
    elif before[1] != value:
        raise ValueError(f"{spelling} is given twice: {before[1]} and {value}; give it once")


def kafka_group(text: str) -> typer.Typer:
    """A group of commands that takes these spellings."""
    return typer.Typer(cls=KafkaSyntax, no_args_is_help=True, help=text)
