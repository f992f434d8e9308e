"""The zone files."""

from kraftquorum_demo.data import tzdata_version, zone_files


def test_all_zones_are_files_of_the_time_zone_format():
    files = zone_files()
    assert len(files) > 500
    assert "Europe/Berlin" in files
    assert all(data.startswith(b"TZif") for data in files.values())
    assert list(files) == sorted(files)
    assert tzdata_version().startswith("20")


def test_a_part_is_spread_over_the_alphabet():
    files = zone_files(20)
    assert len(files) == 20
    assert len({name[0] for name in files}) > 3
    assert zone_files(10_000) == zone_files()
