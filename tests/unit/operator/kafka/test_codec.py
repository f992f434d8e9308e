"""Our codec and Kafka's generated one (kio) agree on each message in each version."""

from __future__ import annotations

import importlib
import io
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioError
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32Timedelta

from kraftquorum_operator.kafka.codec import (
    api_versions,
    describe_cluster,
    describe_configs,
    describe_quorum,
    frames,
    sasl,
    voter_changes,
)
from kraftquorum_operator.kafka.codec.error_codes import ErrorCode
from kraftquorum_operator.kafka.codec.reader import Reader
from kraftquorum_operator.kafka.errors import KafkaDecodeError

DIRECTORY = uuid.UUID(int=1 << 90 | 5)
NO_TIME = i32Timedelta.parse(timedelta(0))
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
I16 = st.integers(0, 2**15 - 1)
I32 = st.integers(-1, 2**31 - 1)
I64 = st.integers(-1, 2**63 - 1)


def module(message: str, version: int, kind: str) -> Any:
    return importlib.import_module(f"kio.schema.{message}.v{version}.{kind}")


def written(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def read(entity_type: Any, data: bytes) -> Any:
    entity, size = entity_reader(entity_type)(data, 0)
    assert size == len(data)
    return entity


def reader(data: bytes, *, flexible: bool = True) -> Reader:
    return Reader("a message", memoryview(data), flexible=flexible)


def test_the_numbers_of_errors_are_kafkas() -> None:
    for code in ErrorCode:
        assert KioError(int(code)).name == code.name.lower(), code


@pytest.mark.parametrize("version", api_versions.API.versions)
def test_api_versions(version: int) -> None:
    request = read(
        module("api_versions", version, "request").ApiVersionsRequest,
        api_versions.encode_request(version),
    )
    if version >= 3:
        assert request.client_software_name == frames.CLIENT_ID
    kio = module("api_versions", version, "response")
    keys = tuple(kio.ApiVersion(api_key=key, min_version=0, max_version=2) for key in (18, 55))
    more: dict[str, Any] = {}
    if version >= 3:
        more = {
            "throttle_time": NO_TIME,
            "finalized_features": (
                kio.FinalizedFeatureKey(
                    name="kraft.version", max_version_level=1, min_version_level=1
                ),
            ),
            "supported_features": (
                kio.SupportedFeatureKey(name="metadata.version", min_version=7, max_version=27),
            ),
        }
    data = written(kio.ApiVersionsResponse(error_code=KioError.none, api_keys=keys, **more))
    answer = api_versions.decode_answer(reader(data, flexible=version >= 3))
    assert answer.versions == {18: (0, 2), 55: (0, 2)}
    assert answer.features == ({"kraft.version": 1} if version >= 3 else {})
    assert answer.highest(describe_quorum.API) == 2
    assert answer.highest(voter_changes.ADD_API) is None


@pytest.mark.parametrize("version", describe_cluster.API.versions)
def test_describe_cluster(version: int) -> None:
    request = read(
        module("describe_cluster", version, "request").DescribeClusterRequest,
        describe_cluster.encode_request(version),
    )
    assert request.include_cluster_authorized_operations is False
    if version >= 1:
        assert request.endpoint_type == 2
    kio = module("describe_cluster", version, "response")
    fenced = {"is_fenced": False} if version >= 2 else {}
    node = kio.DescribeClusterBroker(broker_id=3, host="c.example", port=9093, rack=None, **fenced)
    data = written(
        kio.DescribeClusterResponse(
            throttle_time=NO_TIME,
            error_code=KioError.none,
            error_message=None,
            cluster_id="a cluster",
            controller_id=3,
            brokers=(node,),
            **({"endpoint_type": 2} if version >= 1 else {}),
        )
    )
    answer = describe_cluster.decode_answer(reader(data), version)
    assert answer.cluster_id == "a cluster"
    assert answer.controller_id == 3
    assert answer.nodes == (describe_cluster.ClusterNode(3, "c.example", 9093),)


REPLICAS = st.lists(
    st.tuples(I32, st.uuids().filter(lambda value: value.int != 0), I64, I64, I64), max_size=6
)


def quorum_answer(version: int, voters: Any, observers: Any, error: int = 0) -> bytes:
    kio = module("describe_quorum", version, "response")

    def state(row: Any) -> Any:
        node_id, directory_id, end, fetched, caught_up = row
        fields: dict[str, Any] = {"replica_id": node_id, "log_end_offset": end}
        if version >= 1:
            fields |= {"last_fetch_timestamp": fetched, "last_caught_up_timestamp": caught_up}
        if version >= 2:
            fields["replica_directory_id"] = directory_id
        return kio.ReplicaState(**fields)

    message = {"error_message": None} if version >= 2 else {}
    partition = kio.PartitionData(
        partition_index=0,
        error_code=KioError(error),
        leader_id=1,
        leader_epoch=7,
        high_watermark=40,
        current_voters=tuple(map(state, voters)),
        observers=tuple(map(state, observers)),
        **message,
    )
    topic = kio.TopicData(topic_name=describe_quorum.TOPIC, partitions=(partition,))
    nodes = {}
    if version >= 2:
        listener = kio.Listener(name="CONTROLLER", host="c.example", port=65535)
        nodes = {"nodes": (kio.Node(node_id=1, listeners=(listener,)),)}
    return written(
        kio.DescribeQuorumResponse(error_code=KioError.none, topics=(topic,), **message, **nodes)
    )


@pytest.mark.parametrize("version", describe_quorum.API.versions)
def test_the_request_of_describe_quorum(version: int) -> None:
    request = read(
        module("describe_quorum", version, "request").DescribeQuorumRequest,
        describe_quorum.encode_request(),
    )
    (topic,) = request.topics
    assert topic.topic_name == describe_quorum.TOPIC
    assert [partition.partition_index for partition in topic.partitions] == [0]


@pytest.mark.parametrize("version", describe_quorum.API.versions)
@given(voters=REPLICAS, observers=REPLICAS, error=st.sampled_from([0, 6, 31]))
@settings(max_examples=30, deadline=None)
def test_the_answer_of_describe_quorum(
    version: int, voters: Any, observers: Any, error: int
) -> None:
    data = quorum_answer(version, voters, observers, error)
    answer = describe_quorum.decode_answer(reader(data), version)

    def rows(states: tuple[describe_quorum.ReplicaState, ...]) -> list[Any]:
        return [
            (s.node_id, s.directory_id, s.log_end_offset, s.last_fetch_ms, s.last_caught_up_ms)
            for s in states
        ]

    def expected(given_rows: Any) -> list[Any]:
        return [
            (
                node_id,
                directory_id if version >= 2 else describe_quorum.NO_DIRECTORY,
                end,
                *((fetched, caught_up) if version >= 1 else (-1, -1)),
            )
            for node_id, directory_id, end, fetched, caught_up in given_rows
        ]

    assert rows(answer.voters) == expected(voters)
    assert rows(answer.observers) == expected(observers)
    assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (error, 1, 7)
    assert answer.high_watermark == 40
    listener = describe_quorum.Listener("CONTROLLER", "c.example", 65535)
    assert answer.listeners == ({1: (listener,)} if version >= 2 else {})


@pytest.mark.parametrize("version", voter_changes.ADD_API.versions)
@given(cluster_id=TEXTS, node_id=I32, port=st.integers(0, 65535))
@settings(max_examples=20, deadline=None)
def test_add_raft_voter(version: int, cluster_id: str, node_id: int, port: int) -> None:
    change = voter_changes.VoterChange(cluster_id, node_id, DIRECTORY)
    listener = describe_quorum.Listener("CONTROLLER", "c.example", port)
    data = voter_changes.encode_add_request(change, [listener], 30_000, version)
    request = read(module("add_raft_voter", version, "request").AddRaftVoterRequest, data)
    assert (request.cluster_id, request.voter_id) == (cluster_id, node_id)
    assert request.voter_directory_id == DIRECTORY
    assert request.timeout == timedelta(seconds=30)
    (sent,) = request.listeners
    assert (sent.name, sent.host, sent.port) == ("CONTROLLER", "c.example", port)
    if version >= 1:
        assert request.ack_when_committed is True


def test_remove_raft_voter() -> None:
    change = voter_changes.VoterChange("a cluster", 3, DIRECTORY)
    data = voter_changes.encode_remove_request(change)
    request = read(module("remove_raft_voter", 0, "request").RemoveRaftVoterRequest, data)
    assert (request.cluster_id, request.voter_id) == ("a cluster", 3)
    assert request.voter_directory_id == DIRECTORY


@pytest.mark.parametrize(
    ("message", "version"), [("add_raft_voter", 0), ("add_raft_voter", 1), ("remove_raft_voter", 0)]
)
def test_the_answer_of_a_voter_change(message: str, version: int) -> None:
    kio = module(message, version, "response")
    kind = next(getattr(kio, name) for name in dir(kio) if name.endswith("VoterResponse"))
    error = KioError(int(ErrorCode.DUPLICATE_VOTER))
    data = written(kind(throttle_time=NO_TIME, error_code=error, error_message="twice"))
    answer = voter_changes.decode_answer(reader(data))
    assert answer == voter_changes.ChangeAnswer(126, "twice")


def test_describe_configs() -> None:
    data = describe_configs.encode_request(3, ["process.roles"])
    request = read(module("describe_configs", 4, "request").DescribeConfigsRequest, data)
    (resource,) = request.resources
    assert (resource.resource_type, resource.resource_name) == (4, "3")
    assert resource.configuration_keys == ("process.roles",)
    kio = module("describe_configs", 4, "response")
    synonym = kio.DescribeConfigsSynonym(name="process.roles", value="controller", source=4)
    values = {"process.roles": "controller", "ssl.key.password": None}
    configs = tuple(
        kio.DescribeConfigsResourceResult(
            name=name,
            value=value,
            read_only=True,
            config_source=4,
            is_sensitive=False,
            synonyms=(synonym,),
            config_type=7,
            documentation=None,
        )
        for name, value in values.items()
    )
    result = kio.DescribeConfigsResult(
        error_code=KioError.none,
        error_message=None,
        resource_type=4,
        resource_name="3",
        configs=configs,
    )
    answered = written(kio.DescribeConfigsResponse(throttle_time=NO_TIME, results=(result,)))
    answer = describe_configs.decode_answer(reader(answered))
    assert answer.values == {"process.roles": "controller"}


def test_sasl() -> None:
    request = read(
        module("sasl_handshake", 1, "request").SaslHandshakeRequest, sasl.encode_handshake("PLAIN")
    )
    assert request.mechanism == "PLAIN"
    kio = module("sasl_handshake", 1, "response")
    error = KioError(int(ErrorCode.UNSUPPORTED_SASL_MECHANISM))
    data = written(kio.SaslHandshakeResponse(error_code=error, mechanisms=("PLAIN", "GSSAPI")))
    handshake = sasl.decode_handshake(reader(data, flexible=False))
    assert handshake == sasl.Handshake(33, ("PLAIN", "GSSAPI"))

    request = read(
        module("sasl_authenticate", 2, "request").SaslAuthenticateRequest,
        sasl.encode_authenticate(b"\0user\0word"),
    )
    assert request.auth_bytes == b"\0user\0word"
    kio = module("sasl_authenticate", 2, "response")
    answer = kio.SaslAuthenticateResponse(
        error_code=KioError.none, error_message=None, auth_bytes=b"bytes"
    )
    authentication = sasl.decode_authenticate(reader(written(answer)))
    assert authentication == sasl.Authentication(0, None, b"bytes")


@pytest.mark.parametrize("api", [describe_quorum.API, sasl.HANDSHAKE_API])
def test_a_frame_has_the_header_of_its_version(api: frames.Api) -> None:
    version = api.versions[-1]
    data = frames.encode_frame(api, version, 9, b"body")
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    header = module("request_header", 2 if api.flexible(version) else 1, "header").RequestHeader
    entity, size = entity_reader(header)(data[4:], 0)
    assert (entity.request_api_key, entity.correlation_id) == (api.key, 9)
    assert entity.client_id == frames.CLIENT_ID
    assert data[4 + size :] == b"body"


REFUSED: dict[str, tuple[bytes, Callable[[Reader], object], str]] = {
    "an array with a huge length": (
        b"\0\0" + b"\xff\xff\xff\xff\x0f",
        lambda r: describe_quorum.decode_answer(r, 1),
        "at most 1 are allowed",
    ),
    "more items than bytes": (
        b"\0\0\xff\1",
        api_versions.decode_answer,
        "field api_keys: has 254 items of at least 6 bytes, and 0 bytes are left",
    ),
    "a string longer than what is left": (
        b"\0\0\0\0\0\0\x50abc",
        voter_changes.decode_answer,
        "field error_message: needs 79 bytes at 7, and 3 are left",
    ),
    "a token over its limit": (
        b"\0\0\0" + b"\x82\x40" + b"x" * 8193,
        sasl.decode_authenticate,
        "field auth_bytes: has 8193 bytes: at most 4096 are allowed",
    ),
    "bytes behind the end": (
        b"\0\0\0\0\0\0\0\0\0",
        voter_changes.decode_answer,
        "1 bytes are left",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_length_is_checked_against_what_is_left_and_its_limit(case: str) -> None:
    data, decode, text = REFUSED[case]
    with pytest.raises(KafkaDecodeError) as caught:
        decode(reader(data))
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x15\x03\x03\0", "the listener speaks TLS"),
        (b"HTTP", "the listener speaks HTTP"),
        (b"\0\0\0\3", "is 3: 4 to 262144"),
        (b"\xff\xff\xff\xff", "is -1"),
    ],
)
def test_a_length_that_is_not_kafkas_says_whose_it_is(data: bytes, text: str) -> None:
    with pytest.raises(KafkaDecodeError, match=text):
        frames.decode_length(data)


def test_the_answer_to_another_request_is_refused() -> None:
    with pytest.raises(KafkaDecodeError, match="correlation_id: is 5: 6 was asked"):
        frames.decode_header(describe_quorum.API, 2, 6, b"\0\0\0\5\0")
