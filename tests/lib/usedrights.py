"""What roles allow, what rights declare and what requests have used, in the same words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kraftquorum_devcluster.faultproxy import FaultProxy
from kraftquorum_operator.rights import Right

Use = tuple[str, str, str]
"""API group, resource with subresource, verb."""

OF_EVERY_ACCOUNT = {("authorization.k8s.io", "selfsubjectaccessreviews")}
"""What every account may use."""


def uses(rules: Iterable[dict[str, Any]]) -> set[Use]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def uses_of_rights(rights: Iterable[Right]) -> set[Use]:
    return {(right.group, right.resource, verb) for right in rights for verb in right.verbs}


def use_of_request(path: str, verb: str) -> Use | None:
    """What a role must allow for a request; None: discovery."""
    parts = path.partition("?")[0].strip("/").split("/")
    depth = 2 if parts[0] == "api" else 3
    resource = parts[depth:]
    if not resource or parts[0] not in {"api", "apis"}:
        return None
    group = "" if depth == 2 else parts[1]
    if resource[0] == "namespaces" and len(resource) > 2:
        resource = resource[2:]
    name = "/".join([resource[0], *resource[2:]])
    return None if (group, name) in OF_EVERY_ACCOUNT else (group, name, verb)


def used(proxy: FaultProxy) -> set[Use]:
    """The rights that requests have made use of."""
    uses_made = {use_of_request(e.request.path, e.request.verb) for e in list(proxy.log)}
    return {use for use in uses_made if use is not None}
