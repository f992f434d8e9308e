"""The hooks of the documentation site."""

from types import SimpleNamespace

import pytest

import site_links

PAGE = SimpleNamespace(file=SimpleNamespace(src_uri="operations/install.md"))
CONFIG = SimpleNamespace(repo_url="https://example.org/repo")


def led(markdown):
    return site_links.on_page_markdown(markdown, page=PAGE, config=CONFIG)


def test_links_that_leave_the_docs_lead_to_the_repository():
    assert led("[a](../../Makefile)") == "[a](https://example.org/repo/blob/main/Makefile)"
    assert led("[a](../../charts#x)") == "[a](https://example.org/repo/tree/main/charts#x)"


def test_links_within_the_docs_stay():
    for link in ("[a](image.md)", "[a](../tutorials/demo.md#play)", "[a](https://example.org)"):
        assert led(link) == link


def test_a_link_to_nothing_ends_the_build():
    with pytest.raises(FileNotFoundError, match=r"operations/install.md links to nothing.txt"):
        led("[a](../../nothing.txt)")


def test_a_folder_in_the_navigation_stands_for_its_pages():
    config = SimpleNamespace(
        docs_dir=str(site_links.ROOT / "docs"), nav=[{"Runbooks": "RUNBOOKS"}, "README.md"]
    )
    first, second = site_links.on_config(config).nav
    assert len(first["Runbooks"]) > 20
    assert second == "README.md"
