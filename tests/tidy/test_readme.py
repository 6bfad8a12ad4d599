"""The README promises nothing that is not so."""

import re
from pathlib import Path

import pytest
from tests.interop.fetch_jars import KAFKA_VERSION

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
INDEX = (ROOT / "docs" / "README.md").read_text()
TESTED = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())

PACKAGES = {
    "confluent-kafka (librdkafka)": "confluent-kafka",
    "kafka-python": "kafka-python",
    "aiokafka": "aiokafka",
    "PySpark": "pyspark",
}


def works_with() -> dict[str, str]:
    table = README.split("## Works with")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| ([^|]+) \| (\d[\d.]*) \|", table, re.MULTILINE))


@pytest.mark.parametrize("client", PACKAGES)
def test_a_client_works_with_the_version_that_is_tested(client: str) -> None:
    assert works_with()[client] == TESTED[PACKAGES[client]]


def test_javas_clients_and_kafka_are_those_of_the_interop_tests() -> None:
    assert works_with()["Java clients and console tools"] == KAFKA_VERSION
    assert f"work with Apache Kafka {KAFKA_VERSION}" in README


def test_every_page_of_the_documentation_is_in_its_index() -> None:
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert sorted(page for page in pages if f"]({page})" not in INDEX) == []


def test_the_readme_reads_in_one_go() -> None:
    assert len(README.splitlines()) <= 100
    assert "![" in README.split("## ")[0]


def test_the_picture_fetches_nothing() -> None:
    picture = (ROOT / "docs" / "quickstart.svg").read_text()
    links = set(re.findall(r'(?:href|src)="([^"]+)"|url\(([^)]+)\)', picture))
    assert not [each for pair in links for each in pair if each.startswith("http")]
