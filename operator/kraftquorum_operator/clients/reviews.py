"""Asks Kubernetes who a bearer token belongs to, and whether its owner may do something.

These are the two reviews that the API server itself makes of each request, so that roles and
bindings of the cluster decide on the operator's own pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.model.objects import Body


@dataclass(frozen=True, slots=True)
class User:
    """The owner of a token, as the API server knows them."""

    name: str
    uid: str
    groups: tuple[str, ...]
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


async def review_token(kube: KubeClient, token: str) -> User | None:
    """The owner of a token; None: the API server does not accept it.

    Raises:
        KubeError: the API server did not answer, or the operator may not ask.
    """
    status = await kube.review(
        "authentication.k8s.io", "tokenreviews", "TokenReview", {"token": token}
    )
    if status.get("authenticated") is not True:
        return None
    user = cast("Body", status.get("user") or {})
    extra = cast("dict[str, list[str]]", user.get("extra") or {})
    return User(
        name=str(user.get("username", "")),
        uid=str(user.get("uid", "")),
        groups=tuple(cast("list[str]", user.get("groups") or [])),
        extra=tuple((key, tuple(values)) for key, values in sorted(extra.items())),
    )


async def review_access(kube: KubeClient, user: User, verb: str, path: str) -> bool:
    """Whether a role allows the user a verb on a path that is no resource, such as `/metrics`.

    Raises:
        KubeError: the API server did not answer, or the operator may not ask.
    """
    status = await kube.review(
        "authorization.k8s.io",
        "subjectaccessreviews",
        "SubjectAccessReview",
        {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
            "nonResourceAttributes": {"verb": verb, "path": path},
        },
    )
    return status.get("allowed") is True and status.get("denied") is not True
