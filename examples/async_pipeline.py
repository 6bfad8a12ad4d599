"""A producer and a consumer in one event loop."""

import asyncio
import sys

from ottla.client import AsyncConsumer, AsyncProducer

READINGS = 20


async def measure(producer: AsyncProducer) -> None:
    """Send readings of a thermometer."""
    for number in range(READINGS):
        await producer.send("readings", f"{20 + number / 10:.1f}".encode(), key=b"thermometer-1")
    await producer.flush()


async def average(consumer: AsyncConsumer) -> float:
    """Read them, and return their average."""
    total, count = 0.0, 0
    async for record in consumer:
        total += float(record.value)
        count += 1
        if count == READINGS:
            break
    return total / count


async def pipeline(bootstrap_servers: str) -> None:
    async with (
        AsyncProducer(bootstrap_servers) as producer,
        AsyncConsumer(
            bootstrap_servers, group_id="averages", topics="readings", auto_offset_reset="earliest"
        ) as consumer,
    ):
        await measure(producer)
        print(f"the average of {READINGS} readings is {await average(consumer):.2f}")


def main(bootstrap_servers: str = "localhost:9092") -> None:
    asyncio.run(pipeline(bootstrap_servers))


if __name__ == "__main__":
    main(*sys.argv[1:])
