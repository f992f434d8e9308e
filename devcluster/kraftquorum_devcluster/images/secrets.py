"""This machine's pip settings, handed to a build so that they are in no layer.

A machine may reach packages only through an index or with certificates of its
own. Both go into the build as secrets: mounted for one command, in no image,
no history and no cache.
"""

import ast
import configparser
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_PASSED_ON = ("extra-index-url", "index-url", "proxy", "retries", "timeout", "trusted-host")
_CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
_IN_BUILD = "/run/secrets/ca"


def read_pip_settings() -> dict[str, str]:
    """What pip goes by on this machine, environment included; empty where there is no pip."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    return parse_pip_settings(done.stdout) if done.returncode == 0 else {}


def parse_pip_settings(listing: str) -> dict[str, str]:
    """Read the output of `pip config list`; the environment wins, then `install`, then `global`."""
    sections: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listing.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in sections:
            sections[section][key.removeprefix("default-")] = str(ast.literal_eval(value))
    return {**sections["global"], **sections["install"], **sections[":env:"]}


def build_secrets(
    settings: Mapping[str, str], environment: Mapping[str, str], directory: Path
) -> dict[str, Path]:
    """Write the secrets of a build into `directory`, which is private; returns files by id."""
    secrets: dict[str, Path] = {}
    passed = {key: value for key, value in settings.items() if key in _PASSED_ON}
    bundles = [settings.get("cert"), *(environment.get(name) for name in _CERTIFICATES)]
    bundle = next((Path(path) for path in bundles if path and Path(path).is_file()), None)
    if bundle is not None:
        secrets["ca"] = bundle
        passed["cert"] = _IN_BUILD
    if passed:
        config = configparser.ConfigParser(interpolation=None)
        config["global"] = passed
        file = directory / "pip.conf"
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            config.write(out)
        secrets["pip"] = file
    return secrets
