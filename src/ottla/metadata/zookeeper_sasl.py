"""DIGEST-MD5 with an end.

A ZooKeeper that has no JAAS file answers every token with an empty one. kazoo and pure-sasl would then send
empty tokens for ever, as fast as they can, and not even notice that the client is closed. Only the very first
challenge may be empty.
"""

from __future__ import annotations

from puresasl import SASLProtocolException, mechanisms  # type: ignore[import-untyped]


class DigestWithAnEnd(mechanisms.DigestMD5Mechanism):  # type: ignore[misc]
    """DIGEST-MD5 that refuses a server which does not take part."""

    _has_begun = False

    def process(self, challenge: bytes | None = None) -> bytes | None:
        """Return the answer to a challenge."""
        if not challenge and self._has_begun:
            raise SASLProtocolException("the server sends no challenge: it is not set up for SASL")
        self._has_begun = True
        answer: bytes | None = super().process(challenge)
        return answer


def install() -> None:
    """Let kazoo use it: pure-sasl's registry is the only way in."""
    mechanisms.mechanisms[DigestWithAnEnd.name] = DigestWithAnEnd
