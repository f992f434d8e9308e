"""Processor time and memory, of this process and of made-up ones."""

import os
import subprocess
import sys
import time

import pytest

from kraftquorum_bench.process_usage import cpu_us, resident_mib, total_cpu_us


def thread(proc, pid, number, ns):
    path = proc / str(pid) / "task" / str(number)
    path.mkdir(parents=True)
    (path / "schedstat").write_text(f"{ns} 5 7\n")


def test_time_of_all_threads_counts(tmp_path):
    thread(tmp_path, 7, 7, 1_500_000)
    thread(tmp_path, 7, 8, 500_000)
    assert cpu_us(7, tmp_path) == 2000


def test_without_schedstat_the_ticks_count(tmp_path):
    (tmp_path / "7" / "task" / "7").mkdir(parents=True)
    fields = " ".join(str(number) for number in range(3, 20))
    (tmp_path / "7" / "stat").write_text(f"7 (a name) {fields}\n")
    ticks = 14 + 15
    assert cpu_us(7, tmp_path) == ticks * 1e6 / os.sysconf("SC_CLK_TCK")


def test_time_grows_with_work():
    before = cpu_us(os.getpid())
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    assert 40_000 < cpu_us(os.getpid()) - before < 5_000_000
    assert total_cpu_us([os.getpid()]) > before


def test_a_process_that_has_ended_is_named():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with pytest.raises(ProcessLookupError, match=str(process.pid)):
        cpu_us(process.pid)


def test_memory_is_in_mib(tmp_path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text("Name: x\nVmRSS:\t   2048 kB\n")
    assert resident_mib(7, tmp_path) == 2
    assert 5 < resident_mib(os.getpid()) < 10_000


def test_a_process_without_memory_is_named(tmp_path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text("Name: x\nState: Z\n")
    with pytest.raises(ProcessLookupError, match="process 7"):
        resident_mib(7, tmp_path)
