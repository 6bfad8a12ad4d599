"""`ottla txn spark`: the transactions that Spark queries have left open, and their end."""

from __future__ import annotations

import click

from ottla.cli import session
from ottla.cli.options import bootstrap_option, format_option
from ottla.cli.output import print_json, talk
from ottla.client.cluster import Cluster
from ottla.client.producer.options import ProducerOptions


@click.command("spark", short_help="Show, or end, what Spark queries left open.")
@click.option("--query", "query_id", metavar="ID", help="Only of this query.")
@click.option("--end", is_flag=True, help="End them: commit what is decided, abort the rest.")
@format_option
@bootstrap_option
def spark_transactions(query_id: str | None, end: bool, output_format: str, bootstrap: str) -> None:
    """Show the transactions that Spark queries have left open; end those of a query that stays away.

    A query that runs, or is started again, ends them itself: use --end only if it will not come back.

    \b
    ottla txn spark
    ottla txn spark --query 5f0c2f2e-6c0b-4f5e-8a3e-0a7a3d9b2b11 --end
    """

    async def work(cluster: Cluster) -> list[dict[str, object]]:
        from ottla.spark.sink.recovery import Recovery

        options = ProducerOptions(bootstrap_servers=[str(each) for each in cluster.bootstrap])
        recovery = Recovery(cluster, options)
        found: list[dict[str, object]] = []
        for each in await recovery.find(query_id):
            if end:
                await recovery.end(each)
            outcome = "commit" if each.decided is not None else "abort"
            found.append(
                {
                    "transactional_id": each.transactional_id,
                    "query": each.key.query_id,
                    "sink": each.key.sink,
                    "decided_batch": each.batch_id,
                    "end": outcome,
                    "ended": end,
                }
            )
        return found

    found = session.run(bootstrap, work)
    if output_format == "json":
        print_json(found)
        return
    if not found:
        talk("no transaction of a Spark query is open")
    for each in found:
        verb = "was" if end else "to be"
        outcome = "committed" if each["end"] == "commit" else "aborted"
        click.echo(f"{each['transactional_id']}  {verb} {outcome}")
    if found and not end:
        talk("the query ends them when it runs again; if it will not: ottla txn spark --end")
