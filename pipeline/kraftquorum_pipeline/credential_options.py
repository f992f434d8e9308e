"""How the credentials for nodes are called as options; without the libraries of Spark."""

from __future__ import annotations

CREDENTIALS = {
    "ca_file": "caFile",
    "certificate_file": "certificateFile",
    "key_file": "keyFile",
    "token_file": "tokenFile",
    "server_name": "serverName",
    "plaintext_token": "plaintextToken",
}
"""The credentials for nodes, and the options of the data source that name them."""
