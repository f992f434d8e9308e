"""report.json: medians of rounds, the shape that was promised, and what is refused."""

import json

import pytest

from kraftquorum_bench.loads import Sample
from kraftquorum_bench.report import (
    FILE,
    Report,
    result_of,
)
from kraftquorum_bench.report_file import ReportError
from kraftquorum_bench.workloads import all_workloads

PUT_64 = next(row for row in all_workloads() if row.name == "put_64")


def test_the_ratio_is_the_median_of_the_rounds_ratios(report):
    result = report.workloads["put_64"]
    assert (result.ours, result.peer, result.ratio) == (200, 100, 3)
    assert result.spread.ours == (100, 300)
    assert result.spread.peer == (50, 100)
    assert result.spread.ratio == (1, 4)
    assert result.rounds == 3
    assert result.our_figures["leader_us"] == 40


def test_without_a_peer_there_is_no_ratio(report):
    result = report.workloads["memory"]
    assert (result.ours, result.peer, result.ratio, result.peer_name) == (60, None, None, None)
    assert result.spread.ratio is None


@pytest.mark.without("kraftquorum_bench.rounds:ratios", "if len(ours) != len(peer):", "if False:")
def test_rounds_that_do_not_pair_up_are_refused():
    one = Sample(figures={"per_s": 1.0})
    with pytest.raises(ValueError, match="do not pair up"):
        result_of(PUT_64, [one, one], [one], "etcd")


def test_a_written_report_has_the_promised_shape_and_reads_back(report, tmp_path):
    path = tmp_path / "deep" / "report.json"
    FILE.write(report, path)
    assert FILE.read(path) == report
    data = json.loads(path.read_text())
    assert {"ours", "peer", "ratio", "spread"} <= data["workloads"]["put_64"].keys()
    schema = json.loads(path.with_suffix(".schema.json").read_text())
    assert schema == json.loads(json.dumps(Report.model_json_schema()))
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data.pop("raw"), "raw: Field required"),
        (lambda data: data.update(size="huge"), "size: Input should be 'quick', 'whole' or 'full'"),
        (lambda data: data.update(version=2), "version: Input should be 1"),
        (lambda data: data.update(more=1), "more: Extra inputs are not permitted"),
        (
            lambda data: data["workloads"]["put_64"].update(ours=-1),
            "workloads.put_64.ours: Input should be greater than or equal to 0",
        ),
        (
            lambda data: data["workloads"]["put_64"].update(ratio="fast"),
            "workloads.put_64.ratio: Input should be a valid number",
        ),
    ],
)
def test_what_breaks_the_schema_is_named(report, change, said):
    data = json.loads(report.model_dump_json())
    change(data)
    with pytest.raises(ReportError) as error:
        FILE.parse(json.dumps(data))
    assert said in str(error.value)
    assert "run make bench" in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"workloads": NaN}'])
def test_what_is_no_report_is_refused(text):
    with pytest.raises(ReportError, match="no report of `make bench`"):
        FILE.parse(text)


def test_no_report_says_how_to_make_one(tmp_path):
    with pytest.raises(ReportError, match="run make bench first"):
        FILE.read(tmp_path / "report.json")


@pytest.mark.without("kraftquorum_bench.report_file:ReportFile.write", "self.parse(text)", "pass")
def test_a_report_that_is_not_finite_is_not_written(report, tmp_path):
    raw = report.raw.model_copy(update={"round_trip_us": float("nan")})
    with pytest.raises(ReportError, match=r"raw\.round_trip_us"):
        FILE.write(report.model_copy(update={"raw": raw}), tmp_path / "report.json")
    assert list(tmp_path.iterdir()) == []
