"""What a converter is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ottla.connect.config.keys import ConfigKey, Settings
from ottla.connect.data.schema import Schema


class Converter:
    """Converts keys or values of topics."""

    name: ClassVar[str]
    """Its name in configs: Connect's class name."""
    keys: ClassVar[tuple[ConfigKey, ...]] = ()

    def __init__(self, config: Mapping[str, str], *, is_key: bool) -> None:
        self.settings = Settings(self.keys, config)
        self.is_key = is_key

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of a value; raise DataError."""
        raise NotImplementedError

    def to_value(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """Return schema and value of bytes; raise DataError."""
        raise NotImplementedError
