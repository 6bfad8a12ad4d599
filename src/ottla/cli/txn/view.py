"""Transactions as `ottla txn` shows them, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable

import click

from ottla.cli.group.view import duration
from ottla.cli.support.output import count, print_table
from ottla.client.admin.transactions import ListedTransaction, OpenTransaction, TransactionDescription

LISTED = ("transactional id", "state", "producer id", "coordinator")
OPEN = ("topic", "partition", "start offset", "producer id", "epoch", "last record")
PARTITIONS_SHOWN = 100


def state_of(found: ListedTransaction | TransactionDescription) -> str:
    """Return the state, and whether it is prepared."""
    return f"{found.state}, prepared" if found.is_prepared else found.state


def print_listed(found: Iterable[ListedTransaction]) -> None:
    """Print one line for each transactional id."""
    rows = [
        [each.transactional_id, state_of(each), str(each.producer_id), str(each.coordinator)]
        for each in found
    ]
    print_table(LISTED, rows, right=LISTED[2:])


def listed_as_json(found: ListedTransaction) -> dict[str, object]:
    """Return a transactional id as JSON."""
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "prepared": found.is_prepared,
        "producer_id": found.producer_id,
        "coordinator": found.coordinator,
    }


def print_described(found: TransactionDescription, now_ms: int) -> None:
    """Print a transactional id with its transaction."""
    limit = "no timeout" if found.is_prepared else f"timeout {duration(found.timeout_ms / 1000)}"
    begin = "no transaction yet"
    if found.start_ms is not None:
        begin = f"last began {duration(max(0, now_ms - found.start_ms) / 1000)} ago"
    click.echo(f"{found.transactional_id}: {state_of(found)}, coordinator {found.coordinator}")
    click.echo(f"producer {found.producer_id}, epoch {found.producer_epoch}; {begin}, {limit}")
    if found.partitions:
        click.echo(f"{count(len(found.partitions), 'partition')} in it:")
        for each in sorted(found.partitions)[:PARTITIONS_SHOWN]:
            click.echo(f"  {each}")
        if len(found.partitions) > PARTITIONS_SHOWN:
            click.echo(f"  and {len(found.partitions) - PARTITIONS_SHOWN:,} more (--format json has all)")


def described_as_json(found: TransactionDescription) -> dict[str, object]:
    """Return a transactional id with its transaction as JSON."""
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "prepared": found.is_prepared,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "start_ms": found.start_ms,
        "coordinator": found.coordinator,
        "partitions": [{"topic": topic, "partition": index} for topic, index in sorted(found.partitions)],
    }


def print_open(found: Iterable[OpenTransaction], now_ms: int) -> None:
    """Print one line per open transaction in a partition."""
    rows = [
        [
            each.partition.topic,
            str(each.partition.partition),
            str(each.start_offset),
            str(each.producer_id),
            str(each.producer_epoch),
            f"{duration(max(0, now_ms - each.last_timestamp_ms) / 1000)} ago",
        ]
        for each in found
    ]
    print_table(OPEN, rows, right=OPEN[1:])


def open_as_json(found: OpenTransaction) -> dict[str, object]:
    """Return an open transaction in a partition as JSON."""
    return {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "start_offset": found.start_offset,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "coordinator_epoch": found.coordinator_epoch,
        "last_timestamp_ms": found.last_timestamp_ms,
    }
