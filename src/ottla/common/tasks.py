"""Ending a background task."""

from __future__ import annotations

import asyncio
from typing import Any


async def cancel_and_wait(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task, if there is one, and wait until it has ended; what it raised is dropped."""
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
