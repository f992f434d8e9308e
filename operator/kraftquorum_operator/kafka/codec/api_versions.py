"""ApiVersions: which versions a controller speaks, and its finalized features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kraftquorum_operator.kafka.codec import writer
from kraftquorum_operator.kafka.codec.frames import CLIENT_ID, Api
from kraftquorum_operator.kafka.codec.reader import Reader

API: Final = Api(18, "ApiVersions", (0, 3, 4), 3, old_answer_header=True)

APIS_MAX: Final = 1024
FEATURES_MAX: Final = 256

_FINALIZED_FEATURES_TAG = 2


@dataclass(frozen=True, slots=True)
class ApiVersions:
    """The answer.

    Attributes:
        error_code: Kafka's; 35 comes with the versions that are allowed.
        versions: lowest and highest version by API key.
        features: finalized level by the feature's name, such as `kraft.version`.
    """

    error_code: int
    versions: Mapping[int, tuple[int, int]]
    features: Mapping[str, int] = field(default_factory=dict[str, int])

    def highest(self, api: Api) -> int | None:
        """The highest version of an API that both sides speak; None: none."""
        low, high = self.versions.get(api.key, (0, -1))
        return max((version for version in api.versions if low <= version <= high), default=None)


def encode_request(version: int) -> bytes:
    """Encode the request of version 0, 3 or 4."""
    if version < API.flexible_from:
        return b""
    return writer.text(CLIENT_ID) + writer.text("1") + writer.NO_TAGS


def decode_answer(reader: Reader) -> ApiVersions:
    """Decode the answer of version 0, 3 or 4.

    Raises:
        KafkaDecodeError: not such an answer.
    """
    error_code = reader.i16("error_code")
    versions: dict[int, tuple[int, int]] = {}
    for _ in reader.array("api_keys", 6, APIS_MAX):
        key = reader.i16("api_keys[].api_key")
        versions[key] = (
            reader.i16("api_keys[].min_version"),
            reader.i16("api_keys[].max_version"),
        )
        reader.tags("api_keys[]")
    if not reader.flexible:
        reader.finish()
        return ApiVersions(error_code, versions)
    reader.i32("throttle_time_ms")
    tags = reader.tags("body")
    reader.finish()
    finalized = tags.get(_FINALIZED_FEATURES_TAG)
    features = {} if finalized is None else _features(finalized)
    return ApiVersions(error_code, versions, features)


def _features(reader: Reader) -> dict[str, int]:
    features: dict[str, int] = {}
    for _ in reader.array("finalized_features", 6, FEATURES_MAX):
        name = reader.text("finalized_features[].name")
        features[name] = reader.i16("finalized_features[].max_version_level")
        reader.i16("finalized_features[].min_version_level")
        reader.tags("finalized_features[]")
    reader.finish()
    return features
