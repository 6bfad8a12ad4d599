"""Which member owned which partition when, as the members report it, and the check that owners never
overlap.

A member reports a partition as given up before it tells the coordinator, and as taken after the coordinator
has assigned it. So if two members ever own a partition at the same time, the group coordinator was wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

Place = tuple[str, int]
"""A topic (by name or id) and a partition."""


class Event(NamedTuple):
    """A member took a partition, or gave it up."""

    at_s: float
    member: str
    place: Place
    is_taken: bool


class Overlap(NamedTuple):
    """Two members owned one partition at the same time."""

    at_s: float
    place: Place
    owner: str
    intruder: str

    def __str__(self) -> str:
        return f"{self.place} was taken by {self.intruder} at {self.at_s:.3f} s while {self.owner} had it"


@dataclass(slots=True)
class Ownership:
    """The history of one group's partitions; `now` is the state at its end."""

    events: list[Event] = field(default_factory=list)
    now: dict[str, set[Place]] = field(default_factory=dict)

    def join(self, member: str) -> None:
        """Note a member that owns nothing yet."""
        self.now.setdefault(member, set())

    def take(self, at_s: float, member: str, places: Iterable[Place]) -> None:
        """Note that a member owns partitions from now on."""
        for place in places:
            self.events.append(Event(at_s, member, place, True))
            self.now[member].add(place)

    def give_up(self, at_s: float, member: str, places: Iterable[Place]) -> None:
        """Note that a member does not own partitions any more."""
        for place in list(places):
            self.events.append(Event(at_s, member, place, False))
            self.now[member].remove(place)

    def leave(self, at_s: float, member: str) -> None:
        """Note that a member is gone, and all that it owned with it."""
        self.give_up(at_s, member, self.now[member])
        del self.now[member]

    def is_shared(self, partitions: int) -> bool:
        """Return whether all partitions are owned now, by all members, evenly."""
        sizes = [len(owned) for owned in self.now.values()]
        return bool(sizes) and sum(sizes) == partitions and max(sizes) - min(sizes) <= 1

    def overlaps(self) -> Iterator[Overlap]:
        """Yield every time when a partition got a second owner."""
        owners: dict[Place, set[str]] = {}
        for event in self.events:
            of_place = owners.setdefault(event.place, set())
            if event.is_taken:
                for owner in of_place:
                    yield Overlap(event.at_s, event.place, owner, event.member)
                of_place.add(event.member)
            else:
                of_place.discard(event.member)
