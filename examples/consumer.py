"""Read records together with a group; commit what has been dealt with; read it all again."""

import sys

from ottla.client import Consumer, Producer


def main(bootstrap_servers: str = "localhost:9092") -> None:
    with Producer(bootstrap_servers) as producer:
        for number in range(5):
            producer.send("payments", f"payment {number}".encode())

    options = {"group_id": "accounting", "topics": "payments", "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers, enable_auto_commit=False, **options) as consumer:
        for number, record in enumerate(consumer, 1):  # forever, in other programs
            print(f"{record.topic}-{record.partition} offset {record.offset}: {record.value.decode()}")
            if number == 5:
                consumer.commit()  # the next member of the group resumes from here
                break

        consumer.seek_to_beginning()
        again = consumer.poll(timeout_ms=5_000)  # by partition; also as one table: poll_arrow
        print(f"once more: {sum(map(len, again.values()))} records")


if __name__ == "__main__":
    main(*sys.argv[1:])
