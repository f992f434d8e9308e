"""Reads `--bootstrap` and `--id-map`, in the forms of Kafka's own settings."""

from __future__ import annotations

import re

from kraftquorum_operator.errors import SettingsError
from kraftquorum_operator.kafka.connection import Address
from kraftquorum_operator.kafka.facts import MappedController
from kraftquorum_operator.model.kafka_spec import ADDRESSES_MAX, NODE_ID_MAX
from raftnode.core.types import parse_directory_id

_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\[\]:,@\s]+)):(\d{1,5})")


def parse_bootstrap(text: str, option: str = "--bootstrap") -> tuple[Address, ...]:
    """Read `host:port,…`.

    Args:
        text: the addresses.
        option: what messages call them.

    Raises:
        SettingsError: not of that form, an address twice, or too many.
    """
    addresses = tuple(_address(part, f"{option} {part!r}") for part in _parts(text))
    if not addresses:
        raise SettingsError(f"{option} is empty: give host:port of each controller")
    _only_once([str(address) for address in addresses], f"{option} has address")
    return addresses


def parse_id_map(text: str) -> tuple[MappedController, ...]:
    """Read `id@host:port[:directoryId],…`, the form of `controller.quorum.voters`.

    Raises:
        SettingsError: not of that form, an id or address twice, or too many.
    """
    controllers = tuple(_controller(part) for part in _parts(text))
    _only_once([str(controller.node_id) for controller in controllers], "--id-map has id")
    _only_once([str(controller.address) for controller in controllers], "--id-map has address")
    return controllers


def _parts(text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if len(parts) > ADDRESSES_MAX:
        raise SettingsError(f"{len(parts)} controllers are given: at most {ADDRESSES_MAX}")
    return parts


def _address(text: str, where: str) -> Address:
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise SettingsError(f"{where}: expected host:port, and an IPv6 address in brackets")
    port = int(match[3])
    if not 1 <= port <= 65535:
        raise SettingsError(f"{where}: port {port} is not 1 to 65535")
    return Address(match[1] or match[2], port)


def _controller(text: str) -> MappedController:
    where = f"--id-map {text!r}"
    number, at, rest = text.partition("@")
    if not at or not number.isdecimal() or int(number) > NODE_ID_MAX:
        raise SettingsError(
            f"{where}: expected id@host:port[:directoryId], and an id of 0 to {NODE_ID_MAX}"
        )
    head, _, last = rest.rpartition(":")
    if _ADDRESS.fullmatch(rest):
        return MappedController(int(number), _address(rest, where))
    try:
        directory_id = parse_directory_id(last)
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from error
    return MappedController(int(number), _address(head, where), directory_id)


def _only_once(values: list[str], what: str) -> None:
    for value in values:
        if values.count(value) > 1:
            raise SettingsError(f"{what} {value} twice")
