"""Kafka's own transactional producer (java/Transactions.java) behind the interface of `transactions.py`.

It speaks transaction.version=2 with brokers that have it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from tests.integration.aiokafka_transactions import AiokafkaReader
from tests.integration.clients import Outgoing, Place, Refused
from tests.integration.transactions import TransactionalProducer, TransactionLibrary, TransactionOptions
from tests.interop.java_process import OPTIONS, compile_java, require_java

QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"


@cache
def compiled() -> str:
    """Compile the program, once, and return its class path; skip the test where that cannot be done."""
    require_java()
    return compile_java("Transactions", Path(mkdtemp(prefix="ottla-java-")))


class JavaTransactions(TransactionalProducer):
    def __init__(self, address: str, options: TransactionOptions) -> None:
        who = (address, options.transactional_id, str(options.timeout_ms))
        self._process = subprocess.Popen(
            ["java", *OPTIONS, QUIET, "-cp", compiled(), "Transactions", *who],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        self._tell("begin")

    def send(self, topic: str, records: Sequence[Outgoing]) -> None:
        words = [word for one in records for word in (str(one.partition), (one.value or b"").decode())]
        self._tell(f"send {topic} {' '.join(words)}")

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        for (topic, partition), offset in offsets.items():
            self._tell(f"offsets {group} {topic} {partition} {offset}")

    def commit(self) -> None:
        self._tell("commit")

    def abort(self) -> None:
        self._tell("abort")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        self._answer()

    def _answer(self) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if line != "ok":
            raise Refused(None, line)


JAVA = TransactionLibrary("java", JavaTransactions, AiokafkaReader)
