"""What can be told to an admin client."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.client.client_options import ClientOptions


@dataclass(frozen=True)
class AdminOptions(ClientOptions):
    """Where the cluster is, how patient to be, how to prove who one is."""
