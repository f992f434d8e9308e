"""What a node asks of its interpreter, of a process of its own: it holds for the whole of one."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

NODE = """
import gc, json, os, signal, sys, threading, time

from raftnode.runtime import server
from raftnode.settings import NodeSettings

def look():
    while not gc.get_freeze_count():
        time.sleep(0.01)
    began = time.thread_time()
    gc.collect()
    took_s = time.thread_time() - began
    found = [gc.get_freeze_count(), len(gc.get_objects()), sys.getswitchinterval(), took_s]
    gc.unfreeze()
    began = time.thread_time()
    gc.collect()
    found.append(time.thread_time() - began)
    print(json.dumps(found), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=look, daemon=True).start()
any_port = "127.0.0.1:0"
settings = NodeSettings(
    node_id=1, log_dir=sys.argv[1], peer_listen=any_port, api_listen=any_port, disk_reserve_bytes=0
)
sys.exit(server.run(settings))
"""


@pytest.mark.timeout(300)
def test_a_node_keeps_its_program_out_of_collections_and_its_threads_take_turns(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", NODE, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    line = next(line for line in ran.stdout.splitlines() if line.startswith("["))
    frozen, left, interval_s, took_s, whole_s = json.loads(line)
    assert frozen > 50_000
    assert left < frozen / 20
    assert took_s < whole_s / 4
    assert interval_s == 0.001
