"""The Metadata response for all topics, kept encoded: large clusters are asked for it again and again."""

from __future__ import annotations

from collections.abc import Callable

from ottla.metadata.image import ClusterImage


class EncodedMetadata:
    """Response bodies of one image, by version and listener; a new image makes them void."""

    def __init__(self) -> None:
        self._image: ClusterImage | None = None
        self._bodies: dict[tuple[int, str], bytes] = {}

    def body(self, image: ClusterImage, version: int, listener: str, encode: Callable[[], bytes]) -> bytes:
        """Return the body for `image`, calling `encode` only if it is not here yet."""
        if image is not self._image:
            self._image = image
            self._bodies = {}
        key = (version, listener)
        body = self._bodies.get(key)
        if body is None:
            body = self._bodies[key] = encode()
        return body
