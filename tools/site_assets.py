"""Hooks of the documentation site: its pages load nothing from another site.

- The theme loads Mermaid from a public server. `mermaidx`, of requirements/docs.txt, ships the
  same file. The hooks put it on the site and load it on the pages that have a diagram.
- The theme asks GitHub how many stars the repository has, on each page. The hooks turn that off.
- The build ends with an error if a page or a style sheet still names a script, a style, a font or
  a picture of another site. Links for readers are free.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

SCRIPT = "assets/javascripts/mermaid.min.js"
MERMAID_SHA256 = "74d7c46dabca328c2294733910a8aa1ed0c37451776e8d5295da38a2b758fb9b"
"""Of `dist/mermaid.min.js` in Mermaid's own release 11.16.0: the copy has to be that file."""

_DIAGRAM = '<pre class="mermaid">'
_STARS = ' data-md-component="source"'
_LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
_LINK_KINDS_LOADED = {"stylesheet", "icon", "preload", "modulepreload", "prefetch", "preconnect"}
_CSS_URL = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""")


def on_files(files: Any, *, config: Any) -> Any:
    """Add Mermaid's file to the site.

    Raises:
        ValueError: the package ships another file than the one that was reviewed.
    """
    from mkdocs.structure.files import File  # noqa: PLC0415 - only where the site is built

    content = _mermaid().read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != MERMAID_SHA256:
        raise ValueError(
            f"mermaid.js of mermaidx has SHA-256 {digest}, not {MERMAID_SHA256}: compare it with "
            "dist/mermaid.min.js of the npm package mermaid, then change the sum in site_assets.py"
        )
    files.append(File.generated(config, SCRIPT, content=content))
    return files


def _mermaid() -> Path:
    distribution = importlib.metadata.distribution("mermaidx")
    return Path(str(distribution.locate_file("mermaidx/assets/mermaid.js")))


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Load Mermaid on a page with a diagram, before the theme's script looks for it."""
    output = output.replace(_STARS, "")
    if _DIAGRAM not in output:
        return output
    to_root = "../" * page.url.count("/")
    theme = output.rindex(f'<script src="{to_root}assets/javascripts/bundle')
    return f'{output[:theme]}<script src="{to_root}{SCRIPT}"></script>\n{output[theme:]}'


def on_post_build(*, config: Any) -> None:
    """End the build if the site loads something from another site.

    Raises:
        ValueError: names each page and address.
    """
    faults = foreign_addresses(Path(config.site_dir))
    if faults:
        raise ValueError("the site loads from other sites:\n" + "\n".join(faults))


def foreign_addresses(site: Path) -> list[str]:
    """Addresses of other sites that a built site loads without a click: `page: address`."""
    pages = {path: _foreign_in_page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    sheets = {path: _CSS_URL.findall(path.read_text()) for path in sorted(site.rglob("*.css"))}
    return [
        f"{path.relative_to(site)}: {address}"
        for path, addresses in (pages | sheets).items()
        for address in addresses
    ]


def _foreign_in_page(html: str) -> list[str]:
    page = _Loaded()
    page.feed(html)
    return page.foreign


class _Loaded(HTMLParser):
    """What a browser loads for a page by itself, from other sites."""

    def __init__(self) -> None:
        super().__init__()
        self.foreign: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self._in_style = tag == "style"
        if tag == "link" and not _LINK_KINDS_LOADED & set((values.get("rel") or "").split()):
            return
        address = values.get(_LOADING.get(tag, ""))
        if address is not None and re.match(r"(https?:)?//", address):
            self.foreign.append(address)
        self.foreign += _CSS_URL.findall(values.get("style") or "")

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.foreign += _CSS_URL.findall(data)
