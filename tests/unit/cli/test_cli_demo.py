import itertools
import json

import pytest

from ottla.cli.demo.pipeline import pipeline_text
from ottla.cli.demo.screen import as_line, as_panel, ending
from ottla.cli.demo.state import COUNTRIES, DemoState, Names, free_names, orders

NAMES = Names("demo", "demo-orders", "demo-sales", "demo.sales")


def first(seed: int, count: int):
    return list(itertools.islice(orders(seed), count))


def test_the_same_seed_gives_the_same_orders():
    assert first(7, 500) == first(7, 500)
    assert first(7, 500) != first(8, 500)


def test_orders_are_those_of_a_shop():
    some = first(1, 5_000)
    assert [each.order_id for each in some] == list(range(1, 5_001))
    assert {each.country for each in some} <= set(COUNTRIES)
    by_customer = {each.customer for each in some}
    assert 100 < len(by_customer) < 2_000
    assert all(each.cents > 0 and len(each.lines) <= 5 for each in some)


def test_a_customer_lives_in_one_country():
    homes: dict[str, set[str]] = {}
    for each in first(1, 5_000):
        homes.setdefault(each.customer, set()).add(each.country)
    assert {len(each) for each in homes.values()} == {1}


def test_an_order_is_json_with_exact_amounts():
    (order,) = first(1, 1)
    fields = json.loads(order.as_json(1_700_000_000_000))
    assert fields["cents"] == sum(each["quantity"] * each["cents"] for each in fields["lines"])
    assert fields["placed_at"] == 1_700_000_000_000


def test_what_an_earlier_demo_left_is_not_touched():
    assert free_names(()) == NAMES
    assert free_names({"demo-sales", "demo-orders-2"}).orders == "demo-orders-3"


def test_the_pipeline_is_a_file_of_python():
    text = pipeline_text(NAMES)
    compile(text, "demo.py", "exec")
    assert 'read_topic("demo-orders"' in text
    assert '{"topic": "demo-sales", "key": "country"}' in text


@pytest.fixture
def state():
    return DemoState(NAMES, "127.0.0.1:9092", True, "Spark 4")


def test_every_order_is_counted_once_or_the_end_does_not_say_so(state):
    state.sent, state.sent_cents = 3, 900
    state.apply_result(b'{"country": "DE", "orders": 2, "cents": 500}')
    assert ending(state) == "2 of 3 orders counted, 5.00 EUR"
    state.apply_result(b'{"country": "FR", "orders": 1, "cents": 400}')
    assert ending(state) == "3 of 3 orders counted, 9.00 EUR; every order once"
    state.apply_result(b'{"country": "FR", "orders": 2, "cents": 800}')
    assert not state.is_complete


def test_the_screen_fits_80_columns(state):
    from rich.console import Console

    state.sent, state.sent_per_s, state.lag_records, state.lag_seconds = 123_456, 20_000, 1_234, 12.3
    state.services = {"console": "http://127.0.0.1:65535"}
    for country in COUNTRIES:
        state.apply_result(
            json.dumps({"country": country, "orders": 99_999, "cents": 123_456_789_00}).encode()
        )
    console = Console(width=80)
    with console.capture() as captured:
        console.print(as_panel(state))
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= 80
    assert any("1,234 behind, 12.3 s" in line for line in lines)
    assert any("http://127.0.0.1:65535  (console)" in line for line in lines)
    assert len(as_line(state)) <= 80
    state.sent, state.sent_cents = state.counted, state.counted_cents
    assert as_line(state).endswith("lag: caught up"), "whatever the last measurement was"
