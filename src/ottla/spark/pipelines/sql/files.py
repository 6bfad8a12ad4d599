"""Read the statements of Spark's Declarative Pipelines in SQL files into the registry.

    CREATE STREAMING TABLE name [...] [AS query]
    CREATE MATERIALIZED VIEW name [...] AS query
    CREATE TEMPORARY VIEW name AS query
    CREATE TEMPORARY VIEW name USING format OPTIONS (key 'value', ...)
    CREATE FLOW name AS INSERT INTO target BY NAME query

[...] is any of: USING format, OPTIONS (...), TBLPROPERTIES (...), PARTITIONED BY (column, ...), COMMENT
'...', in any order. A table of format `ottla` is stored in a topic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ottla.spark.pipelines.elements import PARQUET, Dataset, Flow, Kind
from ottla.spark.pipelines.problems import PipelineProblem, Place
from ottla.spark.pipelines.registry import Registry
from ottla.spark.pipelines.sql.text import Statement, Token, read_name, statements, tokens

FORMS = "CREATE STREAMING TABLE | MATERIALIZED VIEW | TEMPORARY VIEW | FLOW"

QueryOfSql = Callable[[str, Place], Any]
"""Runs a query's text; the place is its start."""

Load = Callable[[str, dict[str, str], Place], Any]
"""Reads a format with options."""


@dataclass
class _Header:
    """The clauses between CREATE ... name and AS."""

    format: str = ""
    options: dict[str, str] = field(default_factory=dict)
    partition_cols: tuple[str, ...] = ()
    comment: str = ""


def declare_sql(text: str, file: str, registry: Registry, query: QueryOfSql, load: Load) -> None:
    """Declare what the statements of a file create; their queries are run by `query` and `load`."""
    for statement in statements(text):
        _Reader(statement, file, registry, query, load).declare()


class _Reader:
    """Parses one statement from left to right."""

    def __init__(
        self, statement: Statement, file: str, registry: Registry, query: QueryOfSql, load: Load
    ) -> None:
        self._text = statement.text
        self._line = statement.line
        self._file = file
        self._place = Place(file, statement.line)
        self._words = tokens(statement.text)
        self._at = 0
        self._registry = registry
        self._query = query
        self._load = load

    def declare(self) -> None:
        self._expect("CREATE", why=f"a pipeline's SQL file may contain: {FORMS}")
        if self._take("OR"):
            self._take("REFRESH", "REPLACE")
        if self._take("FLOW"):
            self._flow()
            return
        kind = self._kind()
        if self._take("IF"):
            self._expect("NOT", why="IF NOT EXISTS")
            self._expect("EXISTS", why="IF NOT EXISTS")
        name = self._name()
        header = self._header()
        self._registry.add_dataset(
            Dataset(
                name,
                kind,
                self._place,
                format=header.format or PARQUET,
                options=header.options,
                partition_cols=header.partition_cols,
                comment=header.comment,
            )
        )
        if self._take("AS"):
            self._add_flow(name, name)
        elif kind == Kind.TEMPORARY_VIEW and header.format:
            place, given = self._place, header
            self._registry.add_flow(
                Flow(name, name, lambda: self._load(given.format, given.options, place), place)
            )
        elif self._at < len(self._words) or kind != Kind.STREAMING_TABLE:
            raise self._problem("AS and a query are expected here")

    def _flow(self) -> None:
        name = self._name()
        self._expect("AS", why="CREATE FLOW name AS INSERT INTO target BY NAME query")
        self._expect("INSERT", why="CREATE FLOW name AS INSERT INTO target BY NAME query")
        self._expect("INTO", why="CREATE FLOW name AS INSERT INTO target BY NAME query")
        target = self._name()
        if self._take("BY"):
            self._expect("NAME", why="INSERT INTO target BY NAME query")
        self._add_flow(name, target)

    def _add_flow(self, name: str, target: str) -> None:
        if self._at >= len(self._words):
            raise self._problem("a query is expected here")
        start = self._words[self._at].start
        text = self._text[start:]
        place = self._place_at(start)
        self._registry.add_flow(Flow(name, target, lambda: self._query(text, place), place))

    def _kind(self) -> Kind:
        if self._take("STREAMING"):
            self._expect("TABLE", why=FORMS)
            return Kind.STREAMING_TABLE
        if self._take("MATERIALIZED"):
            self._expect("VIEW", why=FORMS)
            return Kind.MATERIALIZED_VIEW
        if self._take("TEMPORARY", "TEMP"):
            self._expect("VIEW", why=FORMS)
            return Kind.TEMPORARY_VIEW
        raise self._problem(f"a pipeline's SQL file may contain: {FORMS}")

    def _header(self) -> _Header:
        header = _Header()
        while self._at < len(self._words) and not self._words[self._at].is_word("AS"):
            if self._take("USING"):
                header.format = self._name()
            elif self._take("OPTIONS", "TBLPROPERTIES"):
                header.options |= self._pairs()
            elif self._take("PARTITIONED"):
                self._expect("BY", why="PARTITIONED BY (column, ...)")
                header.partition_cols = tuple(word.name for word in self._brackets() if word.text != ",")
            elif self._take("COMMENT"):
                header.comment = self._next().literal
            else:
                raise self._problem(f"unexpected {self._words[self._at].text!r}")
        return header

    def _pairs(self) -> dict[str, str]:
        """Parse `(key 'value', 'a.b' = 'c')`."""
        pairs: dict[str, str] = {}
        key: list[str] = []
        for word in [*self._brackets(), Token("mark", ",", 0)]:
            if word.kind == "mark" and word.text == ",":
                if len(key) < 2:
                    raise self._problem("options are written (key 'value', ...)")
                pairs["".join(key[:-1])] = key[-1]
                key = []
            elif word.text != "=":
                key.append(word.literal if word.kind == "string" else word.name)
        return pairs

    def _brackets(self) -> list[Token]:
        """Parse `( ... )` and return the tokens between."""
        if self._next().text != "(":
            raise self._problem("( is expected here", at=self._at - 1)
        inside: list[Token] = []
        while (word := self._next()).text != ")" or word.kind != "mark":
            inside.append(word)
        return inside

    def _name(self) -> str:
        if self._at >= len(self._words) or self._words[self._at].kind not in ("word", "quoted"):
            raise self._problem("a name is expected here")
        name, self._at = read_name(self._words, self._at)
        return name

    def _next(self) -> Token:
        if self._at >= len(self._words):
            raise self._problem("unexpected end of the statement")
        self._at += 1
        return self._words[self._at - 1]

    def _take(self, *words: str) -> bool:
        if self._at < len(self._words) and self._words[self._at].is_word(*words):
            self._at += 1
            return True
        return False

    def _expect(self, word: str, *, why: str) -> None:
        if not self._take(word):
            raise self._problem(f"{word} is expected here", why)

    def _problem(self, what: str, *hints: str, at: int | None = None) -> PipelineProblem:
        index = min(self._at if at is None else at, len(self._words) - 1)
        return PipelineProblem(what, *hints, place=self._place_at(self._words[index].start))

    def _place_at(self, start: int) -> Place:
        return Place(self._file, self._line + self._text.count("\n", 0, start))
