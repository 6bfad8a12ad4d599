"""The table of APIs as a page of the documentation."""

from __future__ import annotations

import inspect
from importlib import import_module

from ottla.api.table import APIS

HEAD = """# APIs

Every Kafka API that Ottla serves, in which versions, and since which release. This page is made from the
table that also drives dispatch and the ApiVersions response (`make docs`); a test compares the two.

A connection answers in order. These requests may wait, and those behind them with them: Fetch for `max_wait`;
Produce (acks=all) and DeleteRecords for their timeout; JoinGroup and SyncGroup for the other members; what
coordinators write for the replicas, `offsets.commit.timeout.ms` (transactions: 5 s) at most; changes that the
controller makes (CreateTopics and the like) for a controller, 20 s at most. Whatever else needs somebody who
is away is answered within 0.1 s when a request is behind it (TxnOffsetCommit: 0.5 s), after 3 s at the latest
([decision 82](decisions/0082-nobody-waits-behind-a-wait.md)).

| key | API | versions | since | for |
|---:|---|---|---|---|
"""


def api_page() -> str:
    """Return the page as Markdown."""
    rows = []
    for key, row in APIS.items():
        text = inspect.getdoc(import_module(row.ranges[0].module)) or ""
        purpose = text.splitlines()[0].partition(": ")[2]
        versions = f"{row.min_version}-{row.max_version}"
        if row.advertised_min != row.min_version:
            versions += f" (advertised from {row.advertised_min})"
        rows.append(f"| {key} | {row.name} | {versions} | {row.ranges[0].since} | {purpose} |")
    return HEAD + "\n".join(rows) + "\n"
