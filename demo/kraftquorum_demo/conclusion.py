"""The conclusion of a run: the files that are kept, the report, the last lines of output."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from kraftquorum_devcluster.files import remove_tree

from . import kept_files, pipeline, report, timeline
from .access_check import Findings
from .data import tzdata_version
from .demo_state import DemoState
from .environment import Environment
from .history import Hang
from .log_comparison import Agreement, compare_logs, read_log
from .readback import ReadBack
from .record import Stall
from .verify import Verdict
from .view import View

_TAIL_LINES = 15


@dataclass(slots=True)
class Proof:
    """What the script's last step found.

    Attributes:
        access: What nodes answered to clients without credentials or without the role.
        voters: Node ids of the voters at the end.
        leader_kill: What was under way when the leader was killed.
        hang: How the leader's disk hung.
        short: Whether the run was shortened.
        operator_restarts: How often the operator was restarted while the demo was held.
    """

    verdict: Verdict
    back: ReadBack
    access: Findings
    voters: list[int]
    leader_kill: dict[str, object] = field(default_factory=dict[str, object])
    hang: Hang | None = None
    short: bool = False
    operator_restarts: int = 0

    def lines(self) -> list[str]:
        """For people."""
        return [
            "\nThe answers that the clients got, against what was read back:\n",
            *report.verdict_lines(self.verdict),
            f"\n{self.access.line()}",
            "\nVoter changes in the log:\n",
            *report.control_lines(report.control_records(self.back.log)),
        ]


@dataclass(slots=True)
class Conclusion:
    """Everything that comes after the script, whether it went well or not.

    Attributes:
        spark: Whether the pipeline is to run on what is left.
    """

    environment: Environment
    state: DemoState
    view: View
    clock: Callable[[], float]
    spark: bool = False

    def save_evidence(self) -> None:
        """Keep what explains a failure and only the living cluster can tell; show its end."""
        places = self.environment.places
        described = kept_files.keep_description(self.environment.cluster, places.logs)
        kept_files.keep_logs(self.environment.cluster, places.logs)
        self.view.tell("\n--- kubectl describe krq")
        self.view.tell(described)
        pods = sorted((places.logs / "cluster" / "pods").glob("**/*.log"))
        for path in (places.logs / "operator.log", *pods):
            self.view.tell(f"--- the end of {places.shown(path)}")
            self.view.tell(kept_files.tail(path, _TAIL_LINES))
        self.view.tell(f"\nmore of it in {places.shown(places.logs)}\n")

    def keep(self) -> None:
        """Move data and logs out of the cluster's state directory, and remove that.

        The cluster must have stopped.
        """
        places = self.environment.places
        kept_files.keep_data(places.state, places.data)
        kept_files.keep_logs(self.environment.cluster, places.logs)
        zero_s = time.time() - self.clock()
        kept_files.keep_writes(self.state.record.writes, places.out / "writes.jsonl", zero_s)
        kept_files.keep_events(self.state.history.faults, places.out / "events.json", zero_s)
        remove_tree(places.state)

    def conclude(self, proof: Proof, *, held: bool) -> int:
        """Compare the replicas' files, write the report, say how it went.

        Returns:
            The exit code.
        """
        names = [self.environment.pod(node_id) for node_id in proof.voters]
        logs = {name: read_log(self.environment.places.data / name) for name in names}
        agreement = compare_logs(logs, proof.back.high_watermark)
        ok = proof.verdict.ok and agreement.ok and proof.access.ok
        self._draw(proof)
        seconds = self.environment.seconds
        if not held:
            seconds["whole_demo"] = self.clock()
        for line in () if held else proof.lines():
            self.view.tell(line)
        self._tell_files(agreement)
        studied = self._study(proof)
        ok = ok and studied.ok
        self._write_report(proof, agreement, studied, ok=ok)
        self._tell_end(ok=ok)
        return 0 if ok else 1

    def _study(self, proof: Proof) -> pipeline.Outcome:
        """Let the pipeline look at the files; its time is not the demo's."""
        why_not = pipeline.reason_to_leave_out() if self.spark else ""
        if not self.spark or why_not:
            if why_not:
                self.view.tell(f"\nThe pipeline is left out: {why_not}.")
            return pipeline.Outcome(None, ok=True)
        places = self.environment.places
        self.view.tell("\nThe pipeline, on the files and the clients' account (Spark, a minute):\n")
        material = pipeline.Material(
            data=places.data,
            writes=places.out / "writes.jsonl",
            events=places.out / "events.json",
            committed_end=proof.back.high_watermark,
            name=self.environment.name,
        )
        log = places.logs / "pipeline.log"
        studied = pipeline.run_pipeline(
            material, places.out, log, places.pipeline_owner, self.view.tell
        )
        if studied.said:
            self.view.tell(f"\nThe pipeline failed: {studied.said}\nmore in {places.shown(log)}")
        return studied

    def _stall(self, proof: Proof, end_s: float) -> Stall:
        """The longest stall of all but the hang, which has a figure of its own."""
        if proof.hang is None:
            return self.state.record.longest_stall(end_s)
        return self.state.record.longest_outside(proof.hang.from_s, proof.hang.until_s)

    def _draw(self, proof: Proof) -> None:
        history, record = self.state.history, self.state.record
        end_s = history.steps[-1].span.until_s or self.clock()
        history.close(end_s)
        self.environment.seconds["longest_write_stall"] = self._stall(proof, end_s).seconds
        timeline.draw(
            self.environment.places.out / "timeline.png",
            history,
            record.acknowledged_at(),
            record.stalls(timeline.STALL_SHOWN_S),
            end_s,
        )

    def _write_report(
        self, proof: Proof, agreement: Agreement, studied: pipeline.Outcome, *, ok: bool
    ) -> None:
        hung_disk: dict[str, object] = {}
        if proof.hang is not None:
            hung = self.state.record.longest_within(proof.hang.from_s, proof.hang.until_s)
            hung_disk = report.hang_figures(proof.hang, hung)
        summary = report.make_report(
            ok=ok,
            verdict=proof.verdict,
            seconds=self.environment.seconds,
            history=self.state.history,
            stall=self._stall(proof, self.clock()),
            controls=report.control_records(proof.back.log),
            agreement=agreement,
            facts={
                "short": proof.short,
                "tzdata": tzdata_version(),
                "log_records": len(proof.back.log),
                "keys": len(proof.back.kv),
                "leader_kill": proof.leader_kill,
                "hung_disk": hung_disk,
                "security": proof.access.figures(),
                "operator_restarts": proof.operator_restarts,
                **({} if studied.figures is None else {"pipeline": studied.figures}),
            },
        )
        text = json.dumps(summary, indent=2, ensure_ascii=False) + "\n"
        (self.environment.places.out / "report.json").write_text(text, encoding="utf-8")

    def _tell_files(self, agreement: Agreement) -> None:
        tell = self.view.tell
        tell("\nTimes:\n")
        for line in report.timing_lines(self.environment.seconds):
            tell(line)
        names = ", ".join(agreement.end_offsets)
        tell(
            f"\nThe files of {names} agree byte by byte up to offset {agreement.common_end} "
            f"({agreement.bytes_compared} bytes each)."
            if agreement.ok
            else "\nThe replicas' files do not agree:\n  " + "\n  ".join(agreement.differences)
        )

    def _tell_end(self, *, ok: bool) -> None:
        tell, places = self.view.tell, self.environment.places
        tell(f"\n{report.KEPT}" if ok else "\nA PROMISE WAS BROKEN: see above.")
        out, page = places.shown(places.out), places.out / "report.html"
        tell("\nLook next at\n")
        for path, what in (
            (f"{out}/timeline.png", "the run as a picture"),
            *([(f"{out}/report.html", "its history, as the log tells it")] * page.exists()),
            (f"{out}/report.json", "all figures"),
            (f"{out}/data/", "each replica's directory as it ended"),
            (f"{out}/logs/", "what operator and nodes said"),
            ("make demo HOLD=1", "the same, left running to play with"),
            ("docs/tutorials/demo.md", "what each step shows"),
        ):
            tell(f"  {path:<26}  {what}")
