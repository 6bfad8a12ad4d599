"""Which dataset is read by which: the order of a pipeline, and what is wrong with it. Pure code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.spark.pipelines.problems import PipelineProblem, Place


class Graph:
    """Datasets, and for each the datasets that its flows read."""

    def __init__(self, reads: Mapping[str, Iterable[str]], places: Mapping[str, Place] | None = None) -> None:
        self.reads = {name: tuple(dict.fromkeys(inputs)) for name, inputs in reads.items()}
        self._places = places or {}

    def order(self) -> list[str]:
        """Return the names so that each comes after what it reads; refuse a circle, naming it."""
        done: dict[str, None] = {}
        for name in self.reads:
            self._visit(name, (), done)
        return list(done)

    def readers_of(self, name: str) -> list[str]:
        """Return the datasets that read `name`."""
        return [reader for reader, inputs in self.reads.items() if name in inputs]

    def upstream_of(self, name: str) -> set[str]:
        """Return everything that `name` reads, directly or through others."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            for each in self.reads.get(waiting.pop(), ()):
                if each not in found:
                    found.add(each)
                    waiting.append(each)
        return found

    def _visit(self, name: str, path: tuple[str, ...], done: dict[str, None]) -> None:
        if name in path:
            circle = [*path[path.index(name) :], name]
            raise PipelineProblem(
                f"{name!r} reads itself: {' <- '.join(circle)}",
                "a pipeline has a direction; to feed a result back, write it to a topic and read that topic",
                place=self._places.get(name),
            )
        if name in done:
            return
        for each in self.reads.get(name, ()):
            self._visit(each, (*path, name), done)
        done[name] = None
