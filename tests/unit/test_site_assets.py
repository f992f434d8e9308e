"""The documentation site loads nothing from another site: what the build's check sees."""

from types import SimpleNamespace

import pytest

import site_assets

CLEAN = """\
<head><link rel="canonical" href="https://example.org/page.html">
<link rel="stylesheet" href="../assets/main.css"></head>
<body><a href="https://example.org">elsewhere</a><img src="../images/a.png">
<script src="../assets/bundle.js"></script></body>
"""


@pytest.fixture
def site(tmp_path):
    (tmp_path / "concepts").mkdir()
    (tmp_path / "concepts/page.html").write_text(CLEAN)
    return tmp_path


def test_links_for_readers_and_files_of_the_site_are_free(site):
    assert site_assets.foreign_addresses(site) == []
    site_assets.on_post_build(config=SimpleNamespace(site_dir=str(site)))


@pytest.mark.parametrize(
    "loading",
    [
        '<script src="https://example.org/x.js"></script>',
        '<script src="//example.org/x.js"></script>',
        '<link rel="stylesheet" href="https://example.org/x.css">',
        '<link rel="preconnect" href="https://example.org">',
        '<img src="https://example.org/x.png">',
        "<style>@import 'https://example.org/x.css';</style>",
        '<p style="background: url(https://example.org/x.png)">',
    ],
)
def test_the_build_ends_when_a_page_loads_from_another_site(site, loading):
    (site / "concepts/page.html").write_text(CLEAN + loading)
    with pytest.raises(ValueError, match=r"concepts/page\.html: (https:)?//example\.org"):
        site_assets.on_post_build(config=SimpleNamespace(site_dir=str(site)))


def test_the_build_ends_when_a_style_sheet_loads_a_font_from_another_site(site):
    (site / "main.css").write_text("@font-face{src:url(https://example.org/x.woff2)}")
    with pytest.raises(ValueError, match=r"main\.css: https://example\.org/x\.woff2"):
        site_assets.on_post_build(config=SimpleNamespace(site_dir=str(site)))


def test_a_page_with_a_diagram_loads_mermaid_before_the_themes_script():
    page = SimpleNamespace(url="operations/runbooks/page.html")
    theme = '<script src="../../assets/javascripts/bundle.1.min.js"></script>'
    plain = f"<p>text</p>{theme}"
    assert site_assets.on_post_page(plain, page=page, config=None) == plain
    output = site_assets.on_post_page(f'<pre class="mermaid">{plain}', page=page, config=None)
    script = '<script src="../../assets/javascripts/mermaid.min.js"></script>'
    assert output.index(script) < output.index(theme)
