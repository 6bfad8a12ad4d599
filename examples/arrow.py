"""Records as a pyarrow table, without making a Python object of any of them. Needs `ottla[arrow]`."""

import sys

import pyarrow.compute as pc

from ottla.client import Consumer, Producer


def main(bootstrap_servers: str = "localhost:9092") -> None:
    with Producer(bootstrap_servers) as producer:
        for number in range(10_000):
            producer.send("clicks", b"click", key=f"page-{number % 10}".encode())

    rows = 0
    with Consumer(
        bootstrap_servers, group_id="clicks-by-page", topics="clicks", auto_offset_reset="earliest"
    ) as consumer:
        while rows < 10_000:
            table = consumer.poll_arrow(timeout_ms=1_000)
            rows += table.num_rows
            if table.num_rows:
                pages = pc.count_distinct(table["key"]).as_py()
                print(f"{table.num_rows} clicks on {pages} pages, {table.nbytes} bytes")
    print(f"{rows} in all")


if __name__ == "__main__":
    main(*sys.argv[1:])
