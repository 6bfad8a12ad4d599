"""Send records, and learn what became of them."""

import sys

from ottla.client import KafkaError, Producer


def main(bootstrap_servers: str = "localhost:9092") -> None:
    with Producer(bootstrap_servers, linger_ms=5, compression_type="zstd") as producer:
        # `send` returns at once: records gather in batches, a background thread ships them. It waits only
        # while the buffer is full.
        deliveries = [
            producer.send("orders", f"order {number}".encode(), key=f"customer-{number % 3}".encode())
            for number in range(10)
        ]
        for delivery in deliveries:
            try:
                metadata = delivery.result(timeout=10)
            except KafkaError as error:
                print(f"not stored: {error}")
            else:
                print(f"orders-{metadata.partition} offset {metadata.offset}")
        # No need to wait for each record: `flush` waits for all of them. It raises if one failed whose result
        # was not read; so does the end of the block.
        producer.send("orders", b"the last one", headers=[("source", b"example")])
        producer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
