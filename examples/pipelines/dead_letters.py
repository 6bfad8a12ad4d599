"""Records that cannot be parsed go to a topic of their own, with the reason; the others are processed.

Both in one query: so each record is in exactly one of the two topics, exactly once.
"""

from ottla.spark import pipelines as dp

dp.create_sink("checked", "ottla")  # no topic: each record names its own


@dp.append_flow(target="checked")
def check():
    orders = dp.parse_json(dp.read_topic("orders"), "item STRING, quantity INT, price DOUBLE")
    good = dp.as_records(orders.good, key="item", topic="good-orders")
    return good.unionByName(dp.dead_letters(orders.bad, topic="dead-orders"))
