"""``devcluster image``: build the images, or the Debian that they are collected from."""

from typing import Annotated

import typer

from kraftquorum_devcluster.files import remove_tree
from kraftquorum_devcluster.paths import cache_root
from kraftquorum_devcluster.progress import make_progress

app = typer.Typer(
    no_args_is_help=True, help="Build the project's images, with or without a registry."
)

Install = Annotated[
    bool,
    typer.Option("--install", help="Install docker.io and debootstrap with apt-get if need be."),
]


@app.command()
def build(
    tag: Annotated[str, typer.Option(help="The tag, which is also the version label.")] = "dev",
    base: Annotated[
        str | None, typer.Option(help="The Debian image to build from; default: trixie.")
    ] = None,
    install: Install = False,
    pipeline: Annotated[
        bool, typer.Option("--pipeline", help="Build the pipeline's, too: Spark and a Java.")
    ] = False,
) -> None:
    """Build the images and write them as archives; prints the archives."""
    # Quick start of the other commands.
    from .build import build_images, build_pipeline  # noqa: PLC0415

    images = build_images(tag, base=base, install=install)
    for (name, size), archive in zip(images.sizes.items(), images.archives, strict=True):
        typer.echo(f"{name}\t{size / 1e6:.1f} MB\t{archive}")
    if pipeline:
        image = build_pipeline(tag, base=base, install=install)
        typer.echo(f"{image.name}\t{image.size / 1e6:.1f} MB\t{image.archive}")


@app.command("base")
def make_base() -> None:
    """Rebuild the stand-in for the public Debian image."""
    from .base import make_stand_in, stand_in_archive  # noqa: PLC0415

    archive = stand_in_archive(cache_root())
    with make_progress() as progress:
        make_stand_in(archive, progress)
    typer.echo(f"{archive}\t{archive.stat().st_size / 1e6:.1f} MB")


@app.command()
def clean() -> None:
    """Remove the archives, the stand-in and the private engine's layers from the cache."""
    for name in ("images", "engine"):
        remove_tree(cache_root() / name)
