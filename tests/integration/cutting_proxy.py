"""A TCP proxy in front of a broker that cuts connections at the worst moment.

When the broker answers a Produce request and a cut is due, the answer is thrown away and both sides are
closed: the broker has the records, the producer does not know.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.integration.frame_proxy import Call, Cut, FrameProxy

from ottla.protocol.api_keys import ApiKey


class CuttingProxy(FrameProxy):
    """Cuts instead of passing on the answer to a Produce request, whenever `cut_when(nth_answer)` says so."""

    def __init__(self, broker_address: str, cut_when: Callable[[int], bool]) -> None:
        super().__init__(broker_address)
        self._cut_when = cut_when
        self.answers = 0  # to Produce requests, passed on or thrown away
        self.cuts = 0

    async def on_answer(self, call: Call, answer: bytes) -> None:
        if call.api_key == ApiKey.PRODUCE:
            self.answers += 1
            if self._cut_when(self.answers):
                self.cuts += 1
                raise Cut
