"""Files and folders in memory that remember what of them is durable; see sim_disk.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

PAGE_BYTES = 4096


@dataclass(eq=False)
class SimContents:
    """Contents: as everybody sees them, and as they would be after a power cut."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    modified_ms: int = 0

    def fsync(self) -> None:
        """Make the contents durable."""
        self.durable = bytes(self.data)

    def lose_power(self, rng: Random) -> None:
        """Lose, keep or tear what is not durable."""
        low, high = sorted((len(self.durable), len(self.data)))
        size = rng.choice((len(self.durable), len(self.data), rng.randint(low, high)))
        after = bytearray(size)
        for start in range(0, size, PAGE_BYTES):
            page = slice(start, min(start + PAGE_BYTES, size))
            old, new = self.durable[page], bytes(self.data[page])
            kept = new if old == new or rng.random() < 0.7 else old
            after[start : start + len(kept)] = kept
        self.data = after
        self.durable = bytes(after)


@dataclass(eq=False)
class SimFolder:
    """Members: as everybody sees them, and the steps since they were last durable."""

    members: dict[str, SimFolder | SimContents] = field(default_factory=dict)
    durable: dict[str, SimFolder | SimContents] = field(default_factory=dict)
    steps: list[tuple[tuple[str, SimFolder | SimContents | None], ...]] = field(default_factory=list)

    def change(self, *step: tuple[str, SimFolder | SimContents | None]) -> None:
        """Set (or, with None, remove) members, all in one step."""
        self.steps.append(step)
        _apply(self.members, step)

    def fsync(self) -> None:
        """Make the members' names durable."""
        self.durable = dict(self.members)
        self.steps.clear()

    def lose_power(self, rng: Random) -> None:
        """Let the first few of the steps have happened; then the members lose power."""
        for step in self.steps[: rng.randint(0, len(self.steps))]:
            _apply(self.durable, step)
        self.members = dict(self.durable)
        self.steps.clear()
        for _, member in sorted(self.members.items()):
            member.lose_power(rng)

    def sync_all(self) -> None:
        """Make everything below durable."""
        self.fsync()
        for member in self.members.values():
            member.sync_all() if isinstance(member, SimFolder) else member.fsync()


def _apply(
    members: dict[str, SimFolder | SimContents], step: tuple[tuple[str, SimFolder | SimContents | None], ...]
) -> None:
    for name, member in step:
        if member is None:
            members.pop(name, None)
        else:
            members[name] = member


def size_of(node: SimFolder | SimContents) -> int:
    """Return the bytes of all files below."""
    if isinstance(node, SimContents):
        return len(node.data)
    return sum(size_of(member) for member in node.members.values())
