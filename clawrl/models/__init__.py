"""Base models: where their weights come from, and how they are made ready on this machine."""

from clawrl.models.packaged import KNOWN, PackagedModel, Progress
from clawrl.models.source import base_digest, cache_folder, prepare, resolve

__all__ = [
    "KNOWN",
    "PackagedModel",
    "Progress",
    "base_digest",
    "cache_folder",
    "prepare",
    "resolve",
]
