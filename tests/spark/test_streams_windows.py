"""Kafka Streams' windows, suppress and joins of streams: the examples against plain Python."""

from __future__ import annotations

import random

import pytest
from tests.spark.references import closed, sessions, window_counts
from tests.spark.streams import Example, moment, seconds


@pytest.fixture
def example(spark, topics, tmp_path):
    return lambda name: Example(spark, topics, tmp_path, name)


def clicks(seed, first, last, count):
    """Keys and times in no order."""
    chosen = random.Random(seed)
    return [(chosen.choice(["ann", "bob", "cleo"]), chosen.randrange(first, last)) for _ in range(count)]


def window_of(row):
    return row["user"], seconds(row["start"]), seconds(row["end"])


def test_tumbling_hopping_and_session_windows_with_grace(example):
    windows = example("windows")
    windows.create("clicks")
    # The second batch begins five minutes before the first one ends, and the grace is two minutes.
    batches = [clicks(1, 0, 600, 80), clicks(2, 300, 1200, 80)]
    for batch in batches:
        windows.send("clicks", [{"user": user, "at": moment(at)} for user, at in batch])
        windows.run()
    for topic, width in (("clicks-tumbling", 60), ("clicks-hopping", 120)):
        expected = window_counts(batches, width, 60, 120)
        assert sum(expected.values()) < 160 * width // 60  # some came too late
        assert {window_of(row): row["count"] for row in windows.rows(topic)} == expected
    expected_sessions = sessions(batches, 30, 120)
    found = [(window_of(row), row["count"]) for row in windows.rows("clicks-sessions")]
    assert sorted(found) == sorted(expected_sessions.items())
    assert max(count for _, count in found) > 1


def degrees_at(at):
    return 20.0 + at % 7


def test_a_suppressed_window_is_written_once_when_it_is_closed(example):
    suppress = example("suppress")
    suppress.create("temperatures")
    batches = [clicks(3, 0, 400, 60), clicks(4, 300, 900, 60)]
    for batch in batches:
        rows = [{"sensor": sensor, "degrees": degrees_at(at), "at": moment(at)} for sensor, at in batch]
        suppress.send("temperatures", rows)
        suppress.run()
    events = [*batches[0], *batches[1]]
    watermark = max(at for _, at in events) - 30
    expected = closed(window_counts(batches, 60, 60, 30), watermark)
    found = []
    for row in suppress.rows("minute-averages"):
        start = seconds(row["start"])
        found.append(((row["sensor"], start, start + 60), row["readings"]))
        degrees = [degrees_at(at) for key, at in events if key == row["sensor"] and 0 <= at - start < 60]
        if len(degrees) == row["readings"]:  # nothing was late
            assert row["average"] == pytest.approx(sum(degrees) / len(degrees))
    assert sorted(found) == sorted(expected.items())


def orders_and_payments(seed):
    chosen = random.Random(seed)
    orders = [(f"o{n}", chosen.choice(["tea", "cup"]), chosen.randrange(3600)) for n in range(60)]
    payments = [(f"o{n}", float(n), chosen.randrange(4200)) for n in range(20, 80)]
    # Some orders are paid in time for sure, one of them twice.
    payments += [(order, 1.5, at + chosen.randrange(600)) for order, _, at in orders[:25]]
    payments.append((orders[0][0], 2.5, orders[0][2]))
    return orders, payments


def joins(orders, payments):
    """Return the rows of each kind of join: id, item, amount."""
    pairs = [
        (order, payment)
        for order in orders
        for payment in payments
        if order[0] == payment[0] and 0 <= payment[2] - order[2] <= 600
    ]
    inner = [(order[0], order[1], payment[1]) for order, payment in pairs]
    left = [(order[0], order[1], None) for order in orders if order not in [each for each, _ in pairs]]
    right = [(paid[0], None, paid[1]) for paid in payments if paid not in [each for _, each in pairs]]
    return {
        "inner": inner,
        "left": inner + left,
        "right": inner + right,
        "full": inner + left + right,
        "semi": sorted({(order[0], order[1], None) for order, _ in pairs}),
    }


def test_streams_join_inner_left_right_full_and_semi(example):
    join = example("stream_joins")
    orders, payments = orders_and_payments(5)
    join.create("placed-orders", "payments")
    hours_later = 5 * 3600  # rows that move the watermark past all others, and are themselves not closed
    placed = [*orders, ("last", "-", hours_later)]
    paid = [*payments, ("none", 0.0, hours_later)]
    join.send("placed-orders", [{"id": key, "item": item, "at": moment(at)} for key, item, at in placed])
    join.send("payments", [{"id": key, "amount": sum_, "paid_at": moment(at)} for key, sum_, at in paid])
    join.run()
    for kind, expected in joins(orders, payments).items():
        found = [(row["id"], row.get("item"), row.get("amount")) for row in join.rows(f"paid-{kind}")]
        assert sorted(found, key=repr) == sorted(expected, key=repr), kind
