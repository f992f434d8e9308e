"""`kubectl` of a reader: `exec` and `port-forward` here, all else by the real program.

The process node has no streams to its pods. A command of `exec` runs on this machine, in the
environment of the container's process, and asks the same node. `port-forward` relays to the pod.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from kraftquorum_devcluster import DevCluster

API_PORT = 9080
DATA_PATH = "/var/lib/raftnode"
"""Where a container has the data of its node, which is a folder of this machine here."""
WITH_VALUE = ("-n", "--namespace", "-c", "--container")


def main() -> int:
    """Run one command; returns its exit code."""
    place = json.loads(Path(os.environ["GUIDE_PLACE"]).read_text())
    words, command = split(sys.argv[1:])
    match words:
        case ["exec", pod]:
            return run_in(place, pod.removeprefix("pod/"), command)
        case ["port-forward", target, port]:
            asyncio.run(forward(place, target, int(port)))
            return 0
        case _:
            return os.execv(place["kubectl"], ["kubectl", *sys.argv[1:]])


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The words of kubectl itself without its flags, and the command for a pod."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    words: list[str] = []
    for before, word in zip(["", *arguments], arguments[:end], strict=False):
        if not word.startswith("-") and before not in WITH_VALUE:
            words.append(word)
    return words, arguments[end + 1 :]


def run_in(place: dict[str, Any], pod: str, command: list[str]) -> int:
    """Run a command as in the container of a pod."""
    cluster = DevCluster(Path(place["state_dir"]), keep_data=True).attach()
    process = cluster.pod_process(place["namespace"], pod)
    text = Path(f"/proc/{process}/environ").read_bytes().decode()
    environment = dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)
    if DATA_PATH in command:
        command = [environment["RAFTNODE_LOG_DIR"] if w == DATA_PATH else w for w in command]
    else:
        server = f"{cluster.pod_address(place['namespace'], pod)}:{API_PORT}"
        flags = ["--bootstrap-server", server, "--hosts-file", str(cluster.hosts_file)]
        end = command.index("--") if "--" in command else len(command)
        command = [*command[:end], *flags, *command[end:]]
    # As from the container's runtime, standard input is a pipe that is read once.
    given = sys.stdin.buffer.read()
    code = subprocess.run(command, env=environment, input=given, check=False).returncode
    if code:
        sys.stderr.write(f"command terminated with exit code {code}\n")
    return code


async def forward(place: dict[str, Any], target: str, port: int) -> None:
    """Relay connections until the shell of the reader ends."""
    if target == "deployment/kraftquorum":
        address = place["operator"]
    else:
        cluster = DevCluster(Path(place["state_dir"]), keep_data=True).attach()
        address = cluster.pod_address(place["namespace"], target.removeprefix("pod/"))

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(address, port)
        await asyncio.gather(copy(reader, there_writer), copy(there_reader, writer))

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65_536):
            writer.write(chunk)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(relay, place["listen"], port)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(os.pidfd_open(os.getppid()), ended.set)
    async with server:
        await ended.wait()


if __name__ == "__main__":
    sys.exit(main())
