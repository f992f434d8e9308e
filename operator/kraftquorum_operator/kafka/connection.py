"""A connection to one controller: one request at a time, each with a timeout."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import secrets
import socket
import ssl
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from kraftquorum_operator.kafka.codec import frames, sasl
from kraftquorum_operator.kafka.codec.error_codes import ErrorCode, error_name
from kraftquorum_operator.kafka.codec.frames import Api
from kraftquorum_operator.kafka.codec.reader import Reader
from kraftquorum_operator.kafka.errors import (
    KafkaAuthenticationError,
    KafkaTlsError,
    KafkaUnreachableError,
)
from kraftquorum_operator.kafka.scram import ScramClient
from kraftquorum_operator.kafka.security import Sasl, Security

CLOSED_HINT: Final = (
    "closed the connection; a listener with SASL or TLS closes connections that lack it: "
    "check security.protocol"
)

_WORKERS: Final = ThreadPoolExecutor(8, "kafka")
"""Resolve hosts and compute SCRAM's keys. A name server that hangs, or a listener that asks for
many iterations, takes no thread from other parts of the operator."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a controller listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(slots=True)
class Connection:
    """An open connection; `connect` makes it."""

    address: Address
    timeout_s: float
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    correlation_id: int = 0

    async def ask(self, api: Api, version: int, body: bytes) -> Reader:
        """Send a request; returns a reader of the answer's body.

        Raises:
            KafkaUnreachableError: no answer in time, or the connection was closed.
            KafkaDecodeError: the answer has a wrong length or header.
        """
        self.correlation_id += 1
        try:
            async with asyncio.timeout(self.timeout_s):
                self.writer.write(frames.encode_frame(api, version, self.correlation_id, body))
                await self.writer.drain()
                length = frames.decode_length(await self.reader.readexactly(4))
                data = await self.reader.readexactly(length)
        except TimeoutError:
            raise KafkaUnreachableError(
                f"{self.address} did not answer {api.name} within {self.timeout_s:g} s"
            ) from None
        except ssl.SSLError as error:
            # TLS 1.3 reports a refused client certificate only now.
            raise KafkaTlsError(_tls_text(self.address, error)) from error
        except (EOFError, OSError) as error:
            raise KafkaUnreachableError(f"{self.address} {CLOSED_HINT}") from error
        return frames.decode_header(api, version, self.correlation_id, data)

    async def authenticate(self, credentials: Sasl) -> None:
        """Authenticate by SASL, before any other request.

        Raises:
            KafkaAuthenticationError: the mechanism or the credentials were refused.
            KafkaError: as `ask` does.
        """
        mechanism = credentials.mechanism
        body = sasl.encode_handshake(mechanism)
        answer = sasl.decode_handshake(await self.ask(sasl.HANDSHAKE_API, 1, body))
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            allowed = ", ".join(answer.mechanisms) or "none"
            raise KafkaAuthenticationError(
                f"{self.address} does not take sasl.mechanism {mechanism}: it takes {allowed}"
            )
        if answer.error_code:
            raise KafkaAuthenticationError(
                f"{self.address} refused SASL with {error_name(answer.error_code)} "
                f"({answer.error_code}); is it a listener without SASL?"
            )
        if mechanism == "PLAIN":
            await self._token(credentials, f"\0{credentials.user}\0{credentials.password}".encode())
            return
        scram = ScramClient(
            mechanism, credentials.user, credentials.password, secrets.token_urlsafe(24)
        )
        server_first = await self._token(credentials, scram.first())
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.timeout_s):
                proof = await loop.run_in_executor(_WORKERS, scram.final, server_first)
        except TimeoutError:
            raise KafkaUnreachableError(
                f"the proof for {self.address} took longer than {self.timeout_s:g} s"
            ) from None
        scram.verify(await self._token(credentials, proof))

    async def _token(self, credentials: Sasl, token: bytes) -> bytes:
        body = sasl.encode_authenticate(token)
        reader = await self.ask(sasl.AUTHENTICATE_API, 2, body)
        answer = sasl.decode_authenticate(reader)
        if answer.error_code:
            raise KafkaAuthenticationError(
                f"{self.address} refused user {credentials.user!r} by {credentials.mechanism}: "
                f"{answer.error_message or error_name(answer.error_code)}; "
                "check sasl.jaas.config"
            )
        return answer.token


@contextlib.asynccontextmanager
async def connect(
    address: Address, security: Security, timeout_s: float
) -> AsyncGenerator[Connection]:
    """Connect and authenticate; the connection is closed at the end of the block.

    Raises:
        KafkaUnreachableError: no connection in time.
        KafkaTlsError: the handshake failed.
        KafkaAuthenticationError: the credentials were refused.
    """
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await _open(address, security.tls)
    except TimeoutError:
        raise KafkaUnreachableError(
            f"{address} did not take a connection within {timeout_s:g} s"
        ) from None
    except ssl.SSLError as error:
        raise KafkaTlsError(_tls_text(address, error)) from error
    except OSError as error:
        if security.tls is not None and isinstance(error, ConnectionResetError):
            raise KafkaTlsError(
                f"{address} closed the connection in the TLS handshake: is it a listener with TLS?"
            ) from error
        raise KafkaUnreachableError(f"{address} cannot be reached: {error}") from error
    try:
        connection = Connection(address, timeout_s, reader, writer)
        if security.sasl is not None:
            await connection.authenticate(security.sasl)
        yield connection
    finally:
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                await writer.wait_closed()


async def _open(
    address: Address, tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first of the host's addresses that takes the connection."""
    places = await _resolved(address.host)
    for place in places:
        try:
            return await asyncio.open_connection(
                place,
                address.port,
                ssl=tls,
                server_hostname=address.host if tls is not None else None,
            )
        except ssl.SSLError:
            raise
        except OSError:
            if place == places[-1]:
                raise
    raise OSError(f"{address.host} has no address")


async def _resolved(host: str) -> list[str]:
    """The IP addresses of a host, each once."""
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        resolve = partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
    entries = await asyncio.get_running_loop().run_in_executor(_WORKERS, resolve)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


def _tls_text(address: Address, error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {address} is not trusted: {error.verify_message}; "
            "check ssl.truststore.location and the name in the address"
        )
    return (
        f"TLS with {address} failed: {error.reason or error}; "
        "the listener may ask for a client certificate (ssl.keystore.location)"
    )
