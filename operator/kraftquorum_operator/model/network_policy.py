"""`spec.networkPolicy`: which pods and addresses may reach the nodes of a quorum.

The peers have the form that a Kubernetes NetworkPolicy has, so that a person writes what the
Kubernetes documentation says. Rules refuse a peer that the API server would refuse later, in the
policy.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from kraftquorum_operator.model.spec_base import SpecModel, rules

LABEL_KEY = r"^(([a-z0-9][-a-z0-9.]*)?[a-z0-9]/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
_IPV4 = r"[0-9]{1,3}(\.[0-9]{1,3}){3}/([0-9]|[12][0-9]|3[0-2])"
_IPV6 = r"[0-9a-fA-F:.]*:[0-9a-fA-F:.]*/[0-9]{1,3}"
CIDR = f"^({_IPV4}|{_IPV6})$"

LabelKey = Annotated[str, Field(min_length=1, max_length=317, pattern=LABEL_KEY)]
LabelValue = Annotated[str, Field(max_length=63, pattern=LABEL_VALUE)]
Cidr = Annotated[str, Field(max_length=49, pattern=CIDR)]


class LabelRequirement(SpecModel):
    """A requirement on one label."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            {
                "rule": "(self.operator in ['In', 'NotIn']) == "
                "(has(self.values) && size(self.values) > 0)",
                "message": "values must have an entry for In and NotIn, "
                "and none for Exists and DoesNotExist",
            }
        )
    )

    key: LabelKey
    """Key of the label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label's value relates to `values`."""
    values: Annotated[tuple[LabelValue, ...], Field(max_length=32)] | None = None
    """Values, for `In` and `NotIn`."""


class LabelSelector(SpecModel):
    """Selects by labels; `{}` selects all."""

    match_labels: Annotated[dict[str, LabelValue], Field(max_length=32)] | None = None
    """Labels that must have these values."""
    match_expressions: Annotated[tuple[LabelRequirement, ...], Field(max_length=16)] | None = None
    """Further requirements; all must hold."""


class IPBlock(SpecModel):
    """A range of addresses."""

    cidr: Cidr
    """The range, e.g. `10.1.0.0/16` or `fd00::/64`."""
    excluded: tuple[Cidr, ...] | None = Field(default=None, max_length=32, alias="except")
    """Ranges within it that are left out."""


class Peer(SpecModel):
    """Pods or addresses, as in a Kubernetes NetworkPolicy."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            {
                "rule": "has(self.podSelector) || has(self.namespaceSelector) || has(self.ipBlock)",
                "message": "set podSelector ({}: all pods of the namespace), "
                "namespaceSelector or ipBlock",
            },
            {
                "rule": "!has(self.ipBlock) || "
                "!(has(self.podSelector) || has(self.namespaceSelector))",
                "message": "ipBlock cannot be combined with a selector: make two entries",
            },
        )
    )

    pod_selector: LabelSelector | None = None
    """Pods with these labels: of the quorum's namespace, or of the selected namespaces."""
    namespace_selector: LabelSelector | None = None
    """Namespaces with these labels: all their pods, or those that `podSelector` selects."""
    ip_block: IPBlock | None = None
    """Addresses, such as those of clients outside of the cluster."""

    @model_validator(mode="after")
    def _is_a_peer(self) -> Peer:
        """The rules above, for peers that no API server has checked."""
        selects = self.pod_selector is not None or self.namespace_selector is not None
        if selects == (self.ip_block is not None):
            raise ValueError("a peer needs podSelector, namespaceSelector or both, or ipBlock")
        return self


Peers = Annotated[tuple[Peer, ...], Field(max_length=32)]


class QuorumNetworkPolicy(SpecModel):
    """The NetworkPolicy that the operator makes for the quorum.

    It admits the nodes of the quorum to each other, and the operator. Other pods reach no port of
    a node unless a list here, or a NetworkPolicy of yours, admits them.
    """

    enabled: bool | None = None
    """Whether the operator makes the policy. Unset: it does for a quorum that was created since
    the operator makes policies, and for an older quorum once one of the lists has an entry."""
    clients_from: Peers = ()
    """Clients of the quorum. Empty: none."""
    metrics_from: Peers = ()
    """Readers of the nodes' metrics, besides those of `KRAFTQUORUM_NODE_METRICS_FROM`."""
