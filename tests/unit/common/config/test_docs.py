"""The page about configuration."""

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.docs import configuration_page
from ottla.common.config.topic import TopicConfig

PAGE = configuration_page()


def test_every_key_has_a_row() -> None:
    rows = [line.split(" | ")[0] for line in PAGE.splitlines() if line.startswith("| `")]
    names = [row.removeprefix("| `").removesuffix("`") for row in rows]
    assert names == sorted(BrokerConfig.KEYS) + sorted(TopicConfig.KEYS)


def test_every_row_has_as_many_cells_as_its_header() -> None:
    tables = [part.split("\n\n")[0].splitlines() for part in PAGE.split("\n\n") if part.startswith("| key")]
    assert len(tables) == 2
    for table in tables:
        assert {line.count(" | ") for line in table} == {table[0].count(" | ")}


def test_a_row_tells_the_default_in_words_and_kafkas_where_it_differs() -> None:
    assert "`16777216` (16 MiB); Kafka's is `104857600`" in PAGE
    assert "| `604800000` (7 days) |" in PAGE
    assert "`86400000` (1 day)" in PAGE


def test_every_key_that_is_not_implemented_is_listed() -> None:
    for name in BrokerConfig.UNIMPLEMENTED | TopicConfig.UNIMPLEMENTED:
        assert f"`{name}`" in PAGE
