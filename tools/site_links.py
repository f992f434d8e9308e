"""Hooks of the documentation site: what `mkdocs.yml` cannot say by itself.

- Folders in the navigation: `RUNBOOKS` and `DECISIONS` stand for all pages of a folder, so that a
  new one needs no entry.
- Links to files outside docs/ lead to the repository; mkdocs has checked all others.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(\]\()((?:\.\./)+[^)#\s]+)")


def on_config(config: Any) -> Any:
    """Put the pages of a folder in place of its name."""
    docs = Path(config.docs_dir)
    runbooks = sorted(docs.glob("operations/runbooks/kraftquorum-*.md"))
    decisions = [docs / "decisions/README.md", *sorted(docs.glob("decisions/0*.md"))]
    folders = {"RUNBOOKS": runbooks, "DECISIONS": decisions}
    config.nav = _filled(config.nav, folders, docs)
    return config


def _filled(entry: Any, folders: dict[str, list[Path]], docs: Path) -> Any:
    if isinstance(entry, str) and entry in folders:
        return [str(page.relative_to(docs)) for page in folders[entry]]
    if isinstance(entry, list):
        return [_filled(child, folders, docs) for child in entry]
    if isinstance(entry, dict):
        return {name: _filled(child, folders, docs) for name, child in entry.items()}
    return entry


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Let links that leave docs/ lead to the repository.

    Raises:
        FileNotFoundError: there is no such file.
    """
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")

    def lead(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[2]))
        if path.startswith("docs/"):
            return match[0]
        if not (ROOT / path).exists():
            raise FileNotFoundError(f"{page.file.src_uri} links to {path}, which is not there")
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{match[1]}{config.repo_url}/{kind}/main/{path}"

    return _LINK.sub(lead, markdown)
