"""The labels that tell clusters, quorums, nodes and peers apart; every rule keeps them.

A KafkaQuorum is no quorum of ours, and may have the name of one: its label is `kafka_quorum`.

`cluster` is there only where the series of several Kubernetes clusters come together, as in Thanos
or Mimir. PromQL takes a label that a series does not have for an empty one, so the same rules hold
without it.
"""

from __future__ import annotations

QUORUM_LABELS = "cluster, namespace, quorum"
NODE_LABELS = f"{QUORUM_LABELS}, node_id"

KAFKA_LABELS = "cluster, namespace, kafka_quorum"

BY_QUORUM = f"by ({QUORUM_LABELS})"
BY_NODE = f"by ({NODE_LABELS})"
BY_PEER = f"by ({QUORUM_LABELS}, peer_id, peer_directory_id)"
ON_QUORUM = f"on ({QUORUM_LABELS})"
ON_NODE = f"on ({NODE_LABELS})"
BY_KAFKA = f"by ({KAFKA_LABELS})"
ON_KAFKA = f"on ({KAFKA_LABELS})"
