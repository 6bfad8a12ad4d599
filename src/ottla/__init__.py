"""Ottla: an event-streaming platform in Python that speaks the Apache Kafka protocol."""

from importlib import import_module

DEVELOPMENT = "0.1.0.dev0"
"""The version of a checkout without tags (tools/version.py)."""


def _version() -> str:
    try:
        found: str = import_module("ottla._version").VERSION  # written by hatch_build.py
    except ImportError:
        return DEVELOPMENT
    return found


__version__ = _version()
