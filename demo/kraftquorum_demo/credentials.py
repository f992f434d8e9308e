"""What the demo's clients present to the nodes: a token each, and the CA that the operator made."""

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kraftquorum_devcluster.files import remove_tree
from kraftquorum_devcluster.paths import private_dir
from proofkit.certificates import Authority, replace_file
from raftnode.client import Credentials

APP, REPORTS, PROMETHEUS = CLIENTS = ("app", "reports", "prometheus")
"""As the resource names them, with the roles read and write, read, and metrics."""

_TOKEN_BYTES = 32


class ClientFiles:
    """A folder with the CAs that clients trust and with their tokens.

    Args:
        folder: readable by its owner alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def ca_file(self) -> Path:
        """The CAs of the nodes' certificates."""
        return self._folder / "ca.crt"

    def token_file(self, client: str) -> Path:
        """A client's token."""
        return self._folder / f"{client}.token"

    def make(self) -> None:
        """Make new tokens, and a CA that signed nothing: until `trust`, no node is trusted."""
        remove_tree(self._folder)
        private_dir(self._folder)
        replace_file(self.ca_file, Authority("before the quorum").pem)
        for client in CLIENTS:
            replace_file(self.token_file(client), secrets.token_urlsafe(_TOKEN_BYTES).encode())

    def trust(self, config_map: Mapping[str, Any]) -> None:
        """Take the CAs of the ConfigMap that the operator made for clients."""
        replace_file(self.ca_file, config_map["data"]["ca.crt"].encode())

    def credentials(self, client: str) -> Credentials:
        """What a client presents."""
        return Credentials(ca_file=self.ca_file, token_file=self.token_file(client))

    def token_secrets(self, quorum: str) -> str:
        """The Secrets that the resource names, for `kubectl apply -f -`."""
        items = [
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": f"{quorum}-{client}"},
                "stringData": {"token": self.token_file(client).read_text(encoding="ascii")},
            }
            for client in CLIENTS
        ]
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
