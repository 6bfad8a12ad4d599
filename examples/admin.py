"""Topics, configs, groups and how far they are behind."""

import sys

from ottla.client import Admin, Consumer, NewTopic, Producer
from ottla.protocol.errors import TopicAlreadyExists


def main(bootstrap_servers: str = "localhost:9092") -> None:
    with Admin(bootstrap_servers) as admin:
        cluster = admin.describe_cluster()
        print(f"cluster {cluster.cluster_id}: brokers {cluster.alive}, controller {cluster.controller_id}")

        # Many at once: what became of each is returned. One alone (`create_topic`) raises.
        for name, outcome in admin.create_topics([NewTopic("invoices", 3), NewTopic("audit", 1)]).items():
            print(f"{name}: {'exists' if isinstance(outcome, TopicAlreadyExists) else 'created'}")
        admin.alter_topic_configs("invoices", set_to={"retention.ms": str(7 * 24 * 3600 * 1000)})

        with Producer(bootstrap_servers) as producer:
            for number in range(10):
                producer.send("invoices", str(number).encode(), partition=number % 3)
        with Consumer(
            bootstrap_servers, group_id="printers", topics="invoices", auto_offset_reset="earliest"
        ) as consumer:
            for _, _record in zip(range(4), consumer, strict=False):
                pass
            consumer.commit()

        for partition, measured in sorted(admin.group_lag("printers").items()):
            behind = measured.lag.records if measured.lag else "?"
            print(f"printers in {partition}: {behind} of {measured.end_offset} records behind")
        for directory in admin.describe_log_dirs()[cluster.controller_id]:
            print(f"{directory.path}: {sum(each.size_bytes for each in directory.replicas.values())} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
