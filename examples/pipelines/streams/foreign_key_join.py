"""Kafka Streams' KTable-KTable foreign-key join: orders, each with the customer that it names.

Two steps. The first, by order, remembers whom the order named and tells the old customer to forget it. The
second, by customer, knows the customer and his orders, and writes each that has changed: the joined row, or
null (which deletes). Both work with what a batch comes to, so an order is written once a batch, by one key.

ottla pipeline run foreign_key_join.py --available-now
"""

import json

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from ottla.spark import pipelines as dp

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGE = "customer STRING, action STRING, id STRING, value STRING, offset BIGINT"


class OrderRouter(StatefulProcessor):
    """Keyed by order: sends changes to the customers concerned."""

    def init(self, handle):
        self.named = handle.getValueState("named", "customer STRING")

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802,N803 (Spark's names)
        last = max(rows, key=lambda row: row.offset)
        new = json.loads(last.value)["customer"] if last.value is not None else None
        old = self.named.get()[0] if self.named.exists() else None
        if old is not None and old != new:
            action = "delete" if new is None else "forget"  # forget: another customer writes it
            yield Row(customer=old, action=action, id=key[0], value=None, offset=last.offset)
        if new is None:
            self.named.clear()
        else:
            self.named.update((new,))
            yield Row(customer=new, action="order", id=key[0], value=last.value, offset=last.offset)


class CustomerJoin(StatefulProcessor):
    """Keyed by customer: joins him to his orders."""

    def init(self, handle):
        self.customer = handle.getValueState("customer", "value STRING")
        self.orders = handle.getMapState("orders", "id STRING", "value STRING")

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802,N803
        touched, changes = {}, []
        for row in rows:
            if row.action == "customer":
                changes.append(row)
                continue
            touched[row.id] = row.action != "forget"
            if row.action == "order":
                self.orders.updateValue((row.id,), (row.value,))
            else:
                self.orders.removeKey((row.id,))
        if changes:
            value = max(changes, key=lambda row: row.offset).value
            self.customer.update((value,)) if value is not None else self.customer.clear()
            touched |= {each[0]: True for each, _ in self.orders.iterator()}
        customer = self.customer.get()[0] if self.customer.exists() else None
        for order_id in (each for each, is_ours in touched.items() if is_ours):
            order = self.orders.getValue((order_id,))
            is_whole = order is not None and customer is not None
            yield Row(
                key=order_id, value=f'{{"order": {order[0]}, "customer": {customer}}}' if is_whole else None
            )


def joined_by_customer(orders, customers):
    """Records of two changelogs; orders are JSON with a field `customer`, the key of the other."""
    changes = _text(orders).groupBy("key")
    routed = changes.transformWithState(OrderRouter(), CHANGE, "Append", "None")
    customer_changes = _text(customers).selectExpr(
        "key AS customer", "'customer' AS action", "CAST(NULL AS STRING) AS id", "value", "offset"
    )
    by_customer = routed.unionByName(customer_changes).groupBy("customer")
    return by_customer.transformWithState(CustomerJoin(), "key STRING, value STRING", "Append", "None")


def _text(records):
    return records.selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value", "offset")


@dp.table(
    format="ottla",
    options={"topic": "orders-with-buyers"},
    spark_conf={"spark.sql.streaming.stateStore.providerClass": ROCKSDB},
)
def orders_with_buyers():
    return joined_by_customer(dp.read_topic("purchases"), dp.read_topic("buyers"))
