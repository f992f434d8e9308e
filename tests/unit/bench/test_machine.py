"""The raw machine."""

import pytest

from kraftquorum_bench import machine

MOUNTS = """\
/dev/vda / ext4 rw 0 0
tmpfs /tmp tmpfs rw 0 0
/dev/vdb /tmp/disk xfs rw 0 0
tmpfs /tmp/disk tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/home/x", "ext4"), ("/tmp/x", "tmpfs"), ("/tmp/disk/x", "tmpfs"), ("/tmpx", "ext4")],
)
def test_the_file_system_is_that_of_the_nearest_mount(path, kind, tmp_path):
    assert machine.file_system(type(tmp_path)(path), MOUNTS) == kind


def test_the_machines_figures_are_plausible(tmp_path, network):
    p50_ms, p99_ms = machine.fdatasync_ms(tmp_path, 0.05)
    assert 0 < p50_ms <= p99_ms
    assert 0 < machine.round_trip_us(network.host(1), 0.05) < 1e6
    assert machine.calibration_mib_per_s() > 1
    assert list(tmp_path.iterdir()) == []
    assert machine.describe_machine(tmp_path)["cores"].isdigit()


async def test_a_copy_leaves_nothing(tmp_path):
    assert await machine.copy_s(tmp_path, 2) > 0
    assert list(tmp_path.iterdir()) == []
