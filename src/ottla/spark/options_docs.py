"""The reference page of the options of the data source, generated from their declarations:
docs/spark-options.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.spark.connector_options import ALREADY_SO, CONNECTOR, NO_EFFECT, OAUTH_PREFIX, REFUSED_JAVA
from ottla.spark.options import OPTIONS, REFUSED_CLIENT_OPTIONS, SINK, SOURCE

HEAD = """\
# Options of the format `ottla` for Spark

Made from the code by `make docs`; [spark.md](spark.md) says how they are used. Upper and lower case are the
same. `kafka.bootstrap.servers` must be given; every other `kafka.NAME` goes to the client
([client-options.md](client-options.md)). Unknown names are refused.
"""


def spark_options_page() -> str:
    """Return the page."""
    parts = [HEAD]
    for use, title in ((SOURCE, "Reading"), (SINK, "Writing")):
        rows = ["| option | default | meaning |", "|---|---|---|"]
        used = (each for each in OPTIONS if use in each.uses)
        rows += [f"| `{each.name}` | {each.shown_default} | {each.doc} |" for each in used]
        refused = [f"- `kafka.{name}`: {why}" for name, why in REFUSED_CLIENT_OPTIONS[use].items()]
        parts += [f"## {title}\n", "\n".join(rows) + "\n", "Refused:\n", "\n".join(refused) + "\n"]
    return "\n".join(parts)


CONNECTOR_HEAD = """\
# In place of Spark's Kafka connector

Made from the code by `make docs`. A job for `spark-sql-kafka-0-10` runs on Ottla without changes:

```python
from ottla.spark import session

spark = session("orders", conf={"spark.ottla.kafka": "true"})  # format("kafka") is now the format ottla
```

In a session that you build yourself, call `ottla.spark.use_for_kafka()` once. Readers and writers in Python
are covered, also those of Spark Connect; SQL (`USING kafka`) is not. `write` needs no `mode`, and update mode
is written through `foreachBatch`, exactly once (over Spark Connect only at least once, if you ask for it:
`deliveryGuarantee=at-least-once`).

Checkpoints move both ways. The format `ottla` reads a checkpoint of the connector as it is. For the other
direction, stop the query and run `ottla pipeline offsets export CHECKPOINT`: it removes what is only Ottla's.

## Options of the connector
"""
CLIENT_HEAD = """\
## Options of Kafka's Java clients

`kafka.NAME` goes to Ottla's client ([client options](client-options.md)), which has the options of consumer
and producer. JAAS strings (`kafka.sasl.jaas.config`: PLAIN, SCRAM, and delegation tokens with
`tokenauth="true"`) and stores (PEM, PKCS12, JKS) are read. Tokens that Spark obtains itself
(`spark.kafka.clusters.*`) do not reach Python sources: give a token in the JAAS string.

Accepted without effect:
"""


def connector_page() -> str:
    """Return the page that compares with Spark's connector, option by option."""
    options = [(f"`{name}`", each.verdict, each.note) for name, each in CONNECTOR.items()]
    refused = dict(REFUSED_JAVA) | {f"{OAUTH_PREFIX}*": REFUSED_JAVA["sasl.login.read.timeout.ms"]}
    one_of = {name: ", ".join(f"`{each}`" for each in values) for name, values in ALREADY_SO.items()}
    return "\n".join(
        (
            CONNECTOR_HEAD,
            _table(("option", "", ""), options),
            CLIENT_HEAD,
            _table(("option", "why"), [(f"`kafka.{name}`", why) for name, why in NO_EFFECT.items()]),
            "Accepted with one value:\n",
            _table(("option", "accepted"), [(f"`kafka.{name}`", values) for name, values in one_of.items()]),
            "Refused:\n",
            _table(("option", "why"), [(f"`kafka.{name}`", why) for name, why in refused.items()]),
        )
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    return "".join(f"{line}\n" for line in (*head, *(f"| {' | '.join(each)} |" for each in rows)))
