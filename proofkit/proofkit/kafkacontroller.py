"""An Apache Kafka controller that leads a quorum of one, with a client of its TCP protocol.

Vote and Fetch go out as our peers encode them. Needs Java and Kafka's jars (`make kafka`).
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import subprocess
import time
import uuid
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kio.schema.describe_quorum.v2 import request as describe_request
from kio.schema.describe_quorum.v2 import response as describe_response
from kio.schema.fetch.v17 import response as fetch_response
from kio.schema.vote.v2 import response as vote_response
from kio.serial import entity_reader

from raftnode.core.messages import FetchRequest, VoteRequest
from raftnode.core.types import parse_directory_id
from raftnode.wire import fetch, kafka, vote

NODE_ID = 7
"""The controller's."""

PORT = 9093
"""Where it listens, at an address of its own: its start takes long, and no other may get the
port meanwhile, as one of the ephemeral range is."""

EQUAL_LOOKS = 3
"""How often its log must end at the same place to be complete: of what a start writes, its
registration is the last and comes by itself."""


def write_settings(
    root: Path,
    host: str,
    more: str = "",
    *,
    node_id: int = NODE_ID,
    bootstrap: Sequence[str] = (),
) -> Path:
    """Write the configuration, and return its path; without `bootstrap` it asks itself."""
    path, listener = root / "controller.properties", f"CONTROLLER://{host}:{PORT}"
    servers = ",".join(f"{server}:{PORT}" for server in bootstrap or (host,))
    path.write_text(
        f"process.roles=controller\nnode.id={node_id}\n"
        "controller.listener.names=CONTROLLER\n"
        f"listeners={listener}\nadvertised.listeners={listener}\n"
        f"controller.quorum.bootstrap.servers={servers}\nlog.dirs={root}/data\n{more}"
    )
    return path


@dataclass(slots=True)
class Controller:
    """A formatted controller, stopped or running.

    Attributes:
        command: what runs it.
        root: holds its `data`, and what it prints.
        host: where it listens on this machine.
        cluster_id: what it was formatted with.
    """

    command: list[str]
    root: Path
    host: str
    cluster_id: str
    connection: socket.socket | None = None
    correlation_id: int = 0
    outputs: list[Path] = field(default_factory=list[Path])

    @property
    def log(self) -> Path:
        """Where its log is."""
        return self.root / "data" / "__cluster_metadata-0"

    @property
    def directory_id(self) -> uuid.UUID:
        """The UUID of its storage."""
        text = (self.root / "data" / "meta.properties").read_text()
        match = re.search(r"^directory\.id=(\S+)", text, re.MULTILINE)
        assert match is not None
        return parse_directory_id(match[1])

    def epochs(self) -> list[tuple[int, int]]:
        """Each epoch and its first offset."""
        lines = (self.log / "leader-epoch-checkpoint").read_text().splitlines()[2:]
        return [(int(epoch), int(start)) for epoch, start in map(str.split, lines)]

    @contextlib.contextmanager
    def running(self) -> Generator[Controller]:
        """Run the controller until the end of the block; it leads when the block begins."""
        output = self.root / f"controller-{len(self.outputs)}.out"
        self.outputs.append(output)
        with output.open("wb") as out:
            process = subprocess.Popen(self.command, stdout=out, stderr=subprocess.STDOUT)
        try:
            self._connect(process, output)
            yield self
        finally:
            if self.connection is not None:
                self.connection.close()
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _connect(self, process: subprocess.Popen[bytes], output: Path) -> None:
        """Until it leads and has written what a start writes."""
        deadline = time.monotonic() + 240
        before, equal = -1, 1
        while time.monotonic() < deadline:
            assert process.poll() is None, output.read_text()[-2000:]
            try:
                self.connection = socket.create_connection((self.host, PORT), 20)
                described = self.describe()
            except OSError:
                time.sleep(0.5)
                continue
            end = described.current_voters[0].log_end_offset if described.current_voters else -1
            leads = described.leader_id == NODE_ID and described.high_watermark == end
            before, equal = end, equal + 1 if leads and end == before else 1
            if equal == EQUAL_LOOKS:
                return
            self.connection.close()
            time.sleep(2)
        raise AssertionError(f"it does not lead: {output.read_text()[-2000:]}")

    def ask(self, api_key: int, version: int, body: bytes) -> bytes:
        """Send a request, and return the answer with its header of 5 bytes."""
        assert self.connection is not None
        self.correlation_id += 1
        head = struct.pack(">hhih", api_key, version, self.correlation_id, -1) + b"\0"
        self.connection.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        (size,) = struct.unpack(">i", self._read(4))
        answer = self._read(size)
        assert struct.unpack_from(">i", answer) == (self.correlation_id,)
        assert answer[4:5] == b"\0"
        return answer

    def _read(self, size: int) -> bytes:
        assert self.connection is not None
        read = b""
        while len(read) < size:
            piece = self.connection.recv(size - len(read))
            if not piece:
                raise ConnectionResetError("the controller hung up")
            read += piece
        return read

    def describe(self) -> Any:
        """Return the answer of DescribeQuorum about the log's partition."""
        partition = describe_request.PartitionData(partition_index=kafka.PARTITION)
        topic = describe_request.TopicData(topic_name=kafka.TOPIC, partitions=(partition,))
        body = kafka.writer_of(describe_request.DescribeQuorumRequest)(
            describe_request.DescribeQuorumRequest(topics=(topic,))
        )
        read = entity_reader(describe_response.DescribeQuorumResponse)
        return read(self.ask(55, 2, body), 5)[0].topics[0].partitions[0]

    def vote(self, request: VoteRequest, cluster_id: str | None = None) -> tuple[Any, ...]:
        """Ask for a vote; return error, leader, epoch, and whether it was granted."""
        body = vote.encode_request(request, cluster_id or self.cluster_id).data
        answer = entity_reader(vote_response.VoteResponse)(self.ask(52, 2, body), 5)[0]
        if not answer.topics:
            return (int(answer.error_code), -1, -1, False)
        (partition,) = answer.topics[0].partitions
        error = int(answer.error_code) or int(partition.error_code)
        return (error, partition.leader_id, partition.leader_epoch, partition.vote_granted)

    def fetch(self, request: FetchRequest, cluster_id: str | None = None) -> tuple[Any, ...]:
        """Fetch; return error, leader, epoch, and the diverging offset or None."""
        body = fetch.encode_request(request, cluster_id or self.cluster_id).data
        answer = entity_reader(fetch_response.FetchResponse)(self.ask(1, 17, body), 5)[0]
        if not answer.responses:
            return (int(answer.error_code), -1, -1, None)
        (partition,) = answer.responses[0].partitions
        error = int(answer.error_code) or int(partition.error_code)
        diverging = (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset)
        leader = partition.current_leader
        place = None if diverging == (-1, -1) else diverging
        return (error, leader.leader_id, leader.leader_epoch, place)
