"""The decision log of this process for a cluster: made once, as links are."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from ottla.client.producer.options import ProducerOptions
from ottla.common.clock import SystemClock
from ottla.spark.link import Link
from ottla.spark.sink.decision_log import DecisionLog

_logs: WeakKeyDictionary[Link, DecisionLog] = WeakKeyDictionary()


def decision_log(link: Link, options: ProducerOptions) -> DecisionLog:
    """Return the decision log behind a link."""
    log = _logs.get(link)
    if log is None:
        log = _logs[link] = DecisionLog(link.cluster, options, SystemClock())
    return log
