"""Collect the metrics of the consumer groups and transactions that this broker coordinates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.lag import PartitionLag
from ottla.coordinator.transaction.transaction import State
from ottla.metrics import exporter_metrics, jmx_metrics, own_metrics
from ottla.metrics.remote_lag import Measured, lookup
from ottla.metrics.samples import Samples
from ottla.metrics.view import BrokerView


def groups(view: BrokerView, samples: Samples, remote: Measured) -> Iterator[None]:
    """Add the lag of every group that this broker coordinates, up to the limits."""
    coordinator, config = view.services.groups, view.services.config
    states: Counter[str] = Counter()
    offset_count = 0
    rows = _GroupRows(samples, config.ottla_metrics_max_groups, config.ottla_metrics_max_partitions)
    for machine, group_id in coordinator.listed_now():
        states[_state(machine, group_id)] += 1
        committed = machine.offsets.of_group(group_id).values()
        offset_count += sum(len(each) for each in committed)
        if rows.begin(group_id, _member_count(machine, group_id)):
            for each in coordinator.lag_now(machine, group_id, lookup(remote, group_id)):
                rows.add(group_id, each)
                yield
            rows.end(group_id)
        yield
    rows.put_left_out()
    samples.put(jmx_metrics.GROUP_COUNT, sum(states.values()))
    samples.put(jmx_metrics.GROUP_OFFSETS, offset_count)
    for state, metric in jmx_metrics.GROUP_STATES.items():
        samples.put(metric, states[state])
    samples.put(own_metrics.LOADING, coordinator.loading_count, "groups")


def _state(machine: GroupMachine, group_id: str) -> str:
    group = machine.groups.get(group_id)
    return "Empty" if group is None else group.listed().state


def _member_count(machine: GroupMachine, group_id: str) -> int:
    group = machine.groups.get(group_id)
    return 0 if group is None else len(getattr(group, "members", ()))


class _GroupRows:
    """The rows of the groups, within the limits."""

    def __init__(self, samples: Samples, most_groups: int, most_partitions: int) -> None:
        self._samples = samples
        self._groups_left = most_groups
        self._partitions_left = most_partitions
        self._groups_left_out = self._partitions_left_out = self._unknown = 0
        self._sums: dict[str, list[float]] = {}

    def begin(self, group_id: str, members: int) -> bool:
        """Start a group, if the limit allows one more."""
        if self._groups_left <= 0:
            self._groups_left_out += 1
            return False
        self._groups_left -= 1
        self._sums = {}
        self._samples.put(exporter_metrics.GROUP_MEMBERS, members, group_id)
        return True

    def add(self, group_id: str, each: PartitionLag) -> None:
        """Add one partition; those above the limit are part of the sums only."""
        sums = self._sums.setdefault(each.topic, [0, 0, 0.0])
        sums[0] += each.committed_offset
        if each.lag is None:
            self._unknown += 1
        else:
            sums[1] += each.lag.records
            sums[2] = max(sums[2], each.lag.seconds or 0.0)
        if self._partitions_left <= 0:
            self._partitions_left_out += 1
            return
        self._partitions_left -= 1
        put, labels = self._samples.put, (group_id, each.topic, str(each.partition))
        put(exporter_metrics.GROUP_OFFSET, each.committed_offset, *labels)
        if each.lag is not None:
            put(exporter_metrics.GROUP_LAG, each.lag.records, *labels)
            if each.lag.seconds is not None:
                put(exporter_metrics.GROUP_LAG_SECONDS, each.lag.seconds, *labels)

    def end(self, group_id: str) -> None:
        """Add the sums by topic."""
        for topic, (offsets, records, seconds) in self._sums.items():
            self._samples.put(exporter_metrics.GROUP_OFFSET_SUM, offsets, group_id, topic)
            self._samples.put(exporter_metrics.GROUP_LAG_SUM, records, group_id, topic)
            self._samples.put(exporter_metrics.GROUP_LAG_SECONDS_MAX, seconds, group_id, topic)

    def put_left_out(self) -> None:
        """Add how many groups and partitions the limits left out."""
        self._samples.put(own_metrics.LEFT_OUT, self._groups_left_out, "groups")
        self._samples.put(own_metrics.LEFT_OUT, self._partitions_left_out, "group_partitions")
        self._samples.put(own_metrics.UNKNOWN_LAG, self._unknown)


def transactions(view: BrokerView, samples: Samples) -> Iterator[None]:
    """Add the transactional ids that this broker coordinates, by state."""
    coordinator, now_ms = view.services.transactions, view.services.clock.wall_ms()
    states: Counter[State] = Counter()
    prepared, oldest_ms, oldest_prepared_ms = 0, now_ms, now_ms
    for machine in coordinator.machines:
        for each in list(machine.transactions.values()):
            states[each.state] += 1
            if each.state == State.ONGOING:
                if each.is_prepared:
                    prepared += 1
                    oldest_prepared_ms = min(oldest_prepared_ms, each.start_ms)
                else:
                    oldest_ms = min(oldest_ms, each.start_ms)
            yield
    for state in State:
        samples.put(own_metrics.TRANSACTIONS, states[state], state.title)
    samples.put(own_metrics.PREPARED, prepared)
    samples.put(own_metrics.OLDEST_TRANSACTION, max(0, now_ms - oldest_ms) / 1000)
    samples.put(own_metrics.OLDEST_PREPARED, max(0, now_ms - oldest_prepared_ms) / 1000)
    samples.put(own_metrics.TRANSACTION_LIMIT, view.services.config.transaction_max_timeout_ms / 1000)
    samples.put(own_metrics.LOADING, coordinator.loading_count, "transactions")
