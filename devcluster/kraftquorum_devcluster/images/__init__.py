"""The project's images, built on a machine that may have no registry and no Docker engine.

- `build`: the images and the archives that a container runtime imports
- `engine`: the Docker engine that runs, or a private one for as long as it is needed
- `base`: the public Debian image, or one made by debootstrap in its place
- `secrets`: this machine's pip settings, for the build alone
- `inputs`: what an image is made of, as a hash
- `pause`: the image of a pod's sandbox

The Dockerfile at the root of the source tree is the one that everybody builds.
"""

from .build import ImageSet, PipelineImage, build_images, build_pipeline

__all__ = ["ImageSet", "PipelineImage", "build_images", "build_pipeline"]
