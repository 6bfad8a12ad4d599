"""The client libraries with transactions, by name."""

from __future__ import annotations

from tests.integration.aiokafka_transactions import AIOKAFKA
from tests.integration.confluent_transactions import CONFLUENT
from tests.integration.kafka_python_transactions import KAFKA_PYTHON
from tests.integration.ottla_transactions import OTTLA, OTTLA_ASYNC
from tests.integration.routed_transactions import ROUTED
from tests.integration.transactions import TransactionLibrary
from tests.integration.wire_library import WIRE_V2

CLASSIC: dict[str, TransactionLibrary] = {
    library.name: library for library in (CONFLUENT, KAFKA_PYTHON, AIOKAFKA)
}
"""Those that speak the first generation of the protocol, whatever the broker offers."""

LIBRARIES = {**CLASSIC, OTTLA.name: OTTLA, OTTLA_ASYNC.name: OTTLA_ASYNC}

ALL = {**LIBRARIES, WIRE_V2.name: WIRE_V2}
"""And one of bare bytes, for the second generation of the protocol: on one broker."""

IN_A_CLUSTER = {**LIBRARIES, ROUTED.name: ROUTED}
"""And one that finds coordinators and leaders."""

BY_NAME = {**ALL, **IN_A_CLUSTER}
