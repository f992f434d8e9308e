"""Kafka's messages as bytes: pure, and bounded in every length.

- `frames`: length and header of requests and answers, and what is known of an API;
- `api_versions`, `describe_cluster`, `describe_configs`, `describe_quorum`, `voter_changes`: the
  messages;
- `sasl`: the frames around a mechanism;
- `error_codes`: Kafka's names of errors;
- `reader`, `writer`: primitive values.

A decoder takes any bytes and returns the message or raises KafkaDecodeError. It checks each length
against the bytes that are left and against a limit, and does not recurse.
"""
