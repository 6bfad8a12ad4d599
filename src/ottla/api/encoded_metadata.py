"""The Metadata response for all topics, kept encoded: large clusters are asked for it again and again."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ottla.metadata.image import ClusterImage


class EncodedMetadata:
    """Response bodies of one image, by whatever else decides them; a new image makes them void."""

    def __init__(self) -> None:
        self._image: ClusterImage | None = None
        self._bodies: dict[Hashable, bytes] = {}

    def body(self, image: ClusterImage, key: Hashable, encode: Callable[[], bytes]) -> bytes:
        """Return the body of `key` for `image`, calling `encode` only if it is not here yet."""
        if image is not self._image:
            self._image = image
            self._bodies = {}
        body = self._bodies.get(key)
        if body is None:
            body = self._bodies[key] = encode()
        return body
