"""What the records of `_dek_registry_keys` add up to."""

from __future__ import annotations

from ottla.registry.keys.records import Dek, DekId, Kek, KeyRecord


class KeyState:
    """All keys, deleted ones too."""

    def __init__(self) -> None:
        self.position = 0
        self.keks: dict[str, Kek] = {}
        self.deks: dict[DekId, Dek] = {}

    def replay(self, record: KeyRecord | None, offset: int, timestamp: int = -1) -> None:
        """Take one record over."""
        if record is not None:
            key = record.at(timestamp).key
            if isinstance(record.id, DekId):
                if isinstance(key, Dek):
                    self.deks[record.id] = key
                else:
                    self.deks.pop(record.id, None)
            elif isinstance(key, Kek):
                self.keks[record.id] = key
            else:
                self.keks.pop(record.id, None)
        self.position = offset + 1

    def kek(self, name: str, *, deleted: bool = False) -> Kek | None:
        """Return a KEK; a deleted one only if asked for."""
        found = self.keks.get(name)
        return found if found is not None and (deleted or not found.deleted) else None

    def deks_of(
        self,
        kek_name: str,
        subject: str | None = None,
        algorithm: str | None = None,
        *,
        deleted: bool = False,
    ) -> list[Dek]:
        """Return the DEKs of a KEK, of one subject or all, sorted by subject, algorithm and version."""
        return [
            self.deks[each]
            for each in sorted(self.deks)
            if each.kek_name == kek_name
            and subject in (None, each.subject)
            and algorithm in (None, each.algorithm)
            and (deleted or not self.deks[each].deleted)
        ]
