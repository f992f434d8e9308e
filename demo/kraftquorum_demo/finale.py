"""After the last step: what is kept, what is written down, what is said at the end."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from kraftquorum_devcluster.files import remove_tree

from . import keeping, pipeline, report, timeline
from .data import tzdata_version
from .history import Hang
from .offline import Agreement, compare_logs, read_log
from .readback import ReadBack
from .record import Stall
from .scene import Scene
from .stage import Stage
from .strangers import Findings
from .verify import Verdict
from .view import View

_TAIL_LINES = 15


@dataclass(slots=True)
class Proof:
    """What the script's last step found.

    Attributes:
        strangers: What nodes answered to clients without credentials or without the role.
        voters: Node ids of the voters at the end.
        leader_kill: What was under way when the leader was killed.
        hang: How the leader's disk hung.
        short: Whether the run was shortened.
        operator_restarts: How often the operator was restarted while the demo was held.
    """

    verdict: Verdict
    back: ReadBack
    strangers: Findings
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
            f"\n{self.strangers.line()}",
            "\nVoter changes in the log:\n",
            *report.control_lines(report.control_records(self.back.log)),
        ]


@dataclass(slots=True)
class Finale:
    """Everything that comes after the script, whether it went well or not.

    Attributes:
        spark: Whether the pipeline is to run on what is left.
    """

    stage: Stage
    scene: Scene
    view: View
    clock: Callable[[], float]
    spark: bool = False

    def save_evidence(self) -> None:
        """Keep what explains a failure and only the living cluster can tell; show its end."""
        places = self.stage.places
        described = keeping.keep_description(self.stage.cluster, places.logs)
        keeping.keep_logs(self.stage.cluster, places.logs)
        self.view.tell("\n--- kubectl describe krq")
        self.view.tell(described)
        pods = sorted((places.logs / "cluster" / "pods").glob("**/*.log"))
        for path in (places.logs / "operator.log", *pods):
            self.view.tell(f"--- the end of {places.shown(path)}")
            self.view.tell(keeping.tail(path, _TAIL_LINES))
        self.view.tell(f"\nmore of it in {places.shown(places.logs)}\n")

    def keep(self) -> None:
        """Move data and logs out of the cluster's state directory, and remove that.

        The cluster must have stopped.
        """
        places = self.stage.places
        keeping.keep_data(places.state, places.data)
        keeping.keep_logs(self.stage.cluster, places.logs)
        zero_s = time.time() - self.clock()
        keeping.keep_writes(self.scene.record.writes, places.out / "writes.jsonl", zero_s)
        keeping.keep_events(self.scene.history.faults, places.out / "events.json", zero_s)
        remove_tree(places.state)

    def conclude(self, proof: Proof, *, held: bool) -> int:
        """Compare the replicas' files, write the report, say how it went.

        Returns:
            The exit code.
        """
        names = [self.stage.pod(node_id) for node_id in proof.voters]
        logs = {name: read_log(self.stage.places.data / name) for name in names}
        agreement = compare_logs(logs, proof.back.high_watermark)
        ok = proof.verdict.ok and agreement.ok and proof.strangers.ok
        self._draw(proof)
        seconds = self.stage.seconds
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
        places = self.stage.places
        self.view.tell("\nThe pipeline, on the files and the clients' account (Spark, a minute):\n")
        material = pipeline.Material(
            data=places.data,
            writes=places.out / "writes.jsonl",
            events=places.out / "events.json",
            committed_end=proof.back.high_watermark,
            name=self.stage.name,
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
            return self.scene.record.longest_stall(end_s)
        return self.scene.record.longest_outside(proof.hang.from_s, proof.hang.until_s)

    def _draw(self, proof: Proof) -> None:
        history, record = self.scene.history, self.scene.record
        end_s = history.acts[-1].span.until_s or self.clock()
        history.close(end_s)
        self.stage.seconds["longest_write_stall"] = self._stall(proof, end_s).seconds
        timeline.draw(
            self.stage.places.out / "timeline.png",
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
            hung = self.scene.record.longest_within(proof.hang.from_s, proof.hang.until_s)
            hung_disk = report.hang_figures(proof.hang, hung)
        summary = report.make_report(
            ok=ok,
            verdict=proof.verdict,
            seconds=self.stage.seconds,
            history=self.scene.history,
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
                "security": proof.strangers.figures(),
                "operator_restarts": proof.operator_restarts,
                **({} if studied.figures is None else {"pipeline": studied.figures}),
            },
        )
        text = json.dumps(summary, indent=2, ensure_ascii=False) + "\n"
        (self.stage.places.out / "report.json").write_text(text, encoding="utf-8")

    def _tell_files(self, agreement: Agreement) -> None:
        tell = self.view.tell
        tell("\nTimes:\n")
        for line in report.timing_lines(self.stage.seconds):
            tell(line)
        names = ", ".join(agreement.end_offsets)
        tell(
            f"\nThe files of {names} agree byte by byte up to offset {agreement.common_end} "
            f"({agreement.bytes_compared} bytes each)."
            if agreement.ok
            else "\nThe replicas' files do not agree:\n  " + "\n  ".join(agreement.differences)
        )

    def _tell_end(self, *, ok: bool) -> None:
        tell, places = self.view.tell, self.stage.places
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
