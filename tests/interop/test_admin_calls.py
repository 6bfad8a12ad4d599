"""Every call of Kafka's Admin client, side by side with Apache Kafka: what differs has a written reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.admin_calls import both
from tests.interop.admin_differences import differing, reason, reasons
from tests.interop.java_process import require_java

pytestmark = [pytest.mark.timeout(600)]

MIGRATION = Path(__file__).parents[2] / "docs" / "migration.md"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict[str, str]]:
    require_java()
    return both(tmp_path_factory.mktemp("admin-calls"))


def test_every_method_of_the_interface_is_called(results: tuple[dict[str, str], dict[str, str]]) -> None:
    assert [each["not called"] for each in results] == ["[]", "[]"]
    assert len(results[0]) > 400


def test_no_result_differs_without_a_reason(results: tuple[dict[str, str], dict[str, str]]) -> None:
    theirs, ours = results
    found = {step: reason(step, theirs, ours) for step in differing(theirs, ours)}
    unexplained = {each: (theirs.get(each), ours.get(each)) for each, why in found.items() if why is None}
    assert unexplained == {}
    assert set(reasons()) - set(found.values()) == set()


def test_every_reason_is_documented() -> None:
    text = " ".join(MIGRATION.read_text().split())
    assert [each for each in reasons() if each not in text] == []
