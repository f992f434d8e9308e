"""The client of a quorum: what the operator, the CLI and the pipeline reach a node with.

THE RULE: a write is reported as exactly one of *acknowledged* (the call returns),
*refused* (`NotDoneError`: it is certain that it was not done) or *unknown*
(`OutcomeUnknownError`). It is sent again only when it is certain that it was not done,
so nothing is written twice and nothing is counted twice.

- `quorum_client`: `QuorumClient`, a method for each operation; `values`: what it returns;
- `requests_to_nodes`: which node is asked next, and how often; `leader_search`: whom to ask (pure);
- `sessions`, `session`: one session for each node, with many operations in a message;
- `exchange`: one HTTP request, and certainty about whether it was sent; `bodies`: what is in it;
- `credentials`, `credential_files`: TLS, client certificate and token; `tls_failures`: why not;
- `leadership_transfer`: a leadership transfer before a node stops;
- `errors`, `client_settings`, `hosts`, `servers`: outcomes, time limits, and where a node listens.
"""

from raftnode.client.client_settings import ClientSettings
from raftnode.client.credentials import Credentials
from raftnode.client.errors import (
    ClientError,
    CredentialsError,
    NotDoneError,
    OutcomeUnknownError,
    RefusedError,
    UnavailableError,
    UnexpectedAnswerError,
)
from raftnode.client.quorum_client import QuorumClient
from raftnode.client.values import Listing, ListingEntry, LogPage, LogRecord, Value

__all__ = [
    "ClientError",
    "ClientSettings",
    "Credentials",
    "CredentialsError",
    "Listing",
    "ListingEntry",
    "LogPage",
    "LogRecord",
    "NotDoneError",
    "OutcomeUnknownError",
    "QuorumClient",
    "RefusedError",
    "UnavailableError",
    "UnexpectedAnswerError",
    "Value",
]
