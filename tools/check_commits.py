"""Check the subjects of commits: `area: imperative outcome`.

`check_commits.py` checks all commits since the rule came; `check_commits.py FILE` the message in
a file, as git's commit-msg hook gives it. docs/contributing/writing.md has the rule.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORDS = ROOT / "docs" / "contributing" / "words.txt"
RULE_CAME_AFTER = "64ae20aa3ea3481d47121a9702678b1c403913a2"
"""Subjects up to this commit are not checked."""

LENGTH_MAX = 80
_SUBJECT = re.compile(r"(?P<area>[a-z][a-z0-9/-]*(, [a-z][a-z0-9/-]*)*): (?P<outcome>\S.*)")
_NOT_IMPERATIVE = re.compile(r"[a-z]+(ed|ing)")
_IMPERATIVES = {"bring", "embed", "feed", "need", "proceed", "seed", "speed", "string", "shed"}
_BY_TOOLS = re.compile(r"(Merge|Revert|fixup!|squash!) ")


def faults(subject: str, words: frozenset[str]) -> list[str]:
    """What is wrong with a subject; nothing: it follows the rule.

    Args:
        subject: First line of a message.
        words: That may not stand in it.
    """
    if _BY_TOOLS.match(subject):
        return []
    problems: list[str] = []
    match = _SUBJECT.fullmatch(subject)
    if match is None:
        return [
            "it is not `area: imperative outcome`, such as `operator: retry a refused eviction`"
        ]
    first = match["outcome"].split()[0]
    if _NOT_IMPERATIVE.fullmatch(first) and first not in _IMPERATIVES:
        problems.append(f"`{first}` is not an imperative: `add`, not `added` or `adding`")
    if subject.endswith("."):
        problems.append("it ends with a full stop")
    if len(subject) > LENGTH_MAX:
        problems.append(f"it has {len(subject)} characters: at most {LENGTH_MAX}")
    problems += [
        f"`{word}`: see {WORDS.relative_to(ROOT)}"
        for word in re.findall(r"\w+", subject.lower())
        if word in words
    ]
    return problems


def avoided_words() -> frozenset[str]:
    """The words that docs/contributing/words.txt replaces."""
    lines = WORDS.read_text(encoding="utf-8").splitlines()
    return frozenset(line.partition("->")[0] for line in lines if line)


def subjects_since(commit: str) -> list[tuple[str, str]] | None:
    """Hash and subject of each commit after one, newest first; None: its history is not here."""
    done = subprocess.run(
        ["git", "log", "--no-merges", "--format=%h %s", f"{commit}..HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return None
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in done.stdout.splitlines()]


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    words = avoided_words()
    if len(sys.argv) > 1:
        lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
        commits = [("this message", next(iter(lines), ""))]
    else:
        since = subjects_since(RULE_CAME_AFTER)
        if since is None:
            print("commit subjects: left out, since this clone lacks the history")
            return 0
        commits = since
    wrong = [
        f"{commit}: {subject!r}: {fault}"
        for commit, subject in commits
        for fault in faults(subject, words)
    ]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
