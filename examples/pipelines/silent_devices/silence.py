"""A processor with state and timers: it tells when a device has said nothing for five minutes."""

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

LIMIT_MS = 5 * 60_000
RESULT = "device STRING, silent_since_ms BIGINT"


class Silence(StatefulProcessor):
    """Keyed by device; rows have at_ms."""

    def init(self, handle):
        self.handle = handle
        self.last = handle.getValueState("last", "at_ms BIGINT, is_told BOOLEAN")

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802,N803 (Spark's names)
        """Silences between signals of a batch are reported here: the timers see the end of it only."""
        last, is_told = self.last.get() if self.last.exists() else (None, False)
        if last is not None and not is_told:
            self.handle.deleteTimer(last + LIMIT_MS)
        for at_ms in sorted(row.at_ms for row in rows):
            if last is not None and at_ms >= last + LIMIT_MS and not is_told:
                yield Row(device=key[0], silent_since_ms=last)
            last, is_told = at_ms, False
        self.handle.registerTimer(last + LIMIT_MS)
        self.last.update((last, False))

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):  # noqa: N802,N803
        last, _ = self.last.get()
        yield Row(device=key[0], silent_since_ms=last)
        self.last.update((last, True))
