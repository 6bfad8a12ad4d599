"""What goes wrong between records and a schema registry."""

from __future__ import annotations


class SerdeError(ValueError):
    """A record that cannot be written or read with its schema; the text says what to do."""


class RegistryUnavailable(SerdeError):
    """No registry answers: the record may be fine, so try again."""


class RegistryRefused(SerdeError):
    """The registry answered with an error."""

    def __init__(self, code: int, message: str, hint: str = "") -> None:
        super().__init__(f"{message} ({code})" + (f"; {hint}" if hint else ""))
        self.code = code


class UnknownSchema(SerdeError):
    """The registry has no schema with the id that a record names."""


class NotFramed(SerdeError):
    """The bytes do not name a schema: another program wrote them."""
