"""A small fault-injection run; `python -m tests.spark.fault_injection` runs large ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.spark.fault_injection.ledger import verdict
from tests.spark.fault_injection.numbers import (
    COPY_TOPICS,
    TOTALS_TOPIC,
    WINDOW_TOPIC,
    expected_totals,
    expected_windows,
    record_of,
)
from tests.spark.fault_injection.plan import Kind, draw
from tests.spark.fault_injection.run import FaultInjectionRun
from tests.spark.topics import SHORT_LIVED

from ottla.testing.local_broker import OttlaBroker


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_pipeline_whose_driver_worker_and_broker_are_killed_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", SHORT_LIVED["spark.driver.extraJavaOptions"])
    faults = draw(seed=7, kills=3)

    report = FaultInjectionRun(tmp_path, records=30_000, faults=faults, per_trigger=5_000).run()

    assert {fault.kind for fault in faults} == {Kind.DRIVER, Kind.WORKER, Kind.BROKER}
    assert report.kills.total() == 3
    assert report.verdict is not None
    assert report.verdict.is_exact, report


def test_the_ledger_finds_what_is_lost_doubled_wrong_and_open() -> None:
    records = 100
    with OttlaBroker() as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        producer = Producer(settings)
        for number in (*range(1, records), 7):  # 0 is lost, 7 comes twice
            value = record_of(number) if number != 9 else b"{}"
            producer.produce(COPY_TOPICS[number % 2], value, str(number))
        windows = expected_windows(records)
        for (start, group), total in windows.items():
            count = total.count + (group == 3)
            producer.produce(WINDOW_TOPIC, f'{{"count":{count},"amount":{total.amount}}}', f"{start}/{group}")
        for key, total in expected_totals(records).items():
            for count in (1, total.count) if key != 4 else (1, 1, total.count):  # a row of 4 comes twice
                row = f'{{"id":{key},"count":{count},"amount":{total.amount}}}'
                producer.produce(TOTALS_TOPIC, row, str(key))
        producer.flush(30)
        unended = Producer({**settings, "transactional.id": "unended"})
        unended.init_transactions(30)
        unended.begin_transaction()
        unended.produce("elsewhere", b"")
        unended.flush(30)

        found = verdict(broker.bootstrap_servers, records)

    assert (found.lost, found.duplicated, found.wrong) == (1, 1, 1)
    assert (found.windows, found.windows_lost, found.windows_duplicated, found.windows_wrong) == (10, 0, 0, 1)
    assert found.totals_wrong == 1
    assert found.open_transactions == 1
    assert not found.is_exact
