"""The schema registry: look-ups by id on one core, the time to register, the time to load many subjects.

And the latency of produce requests to the same broker, with and without requests to the registry, in turns.

    python -m benchmarks.registry.service [--seconds 5] [--subjects 10000]

Broker, registry and load generator are processes of their own. The look-ups are reported per second of the
registry's CPU too: that is what one core can do, however much of it the machine gives.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from ottla.client import Producer
from ottla.client.client_options import ClientOptions
from ottla.common.ids import new_uuid
from ottla.registry.entities import Definition, StoredSchema
from ottla.registry.kafka_topic import KafkaTopic
from ottla.registry.records import schema_record
from ottla.testing.broker_process import BrokerProcess

CONNECTIONS = 16
FIELDS = '[{"name":"id","type":"long"},{"name":"note","type":"string"}]'
RECORD = f'{{"type":"record","name":"R%d","fields":{FIELDS}}}'
BATCH = 500
BUSY_LOOK_UPS, BUSY_REGISTRATIONS = 200, 10
"""In a second, while records are written. Consumers ask for an id once in their life."""
PRODUCE_ROUNDS = 5


async def fill(bootstrap: str, topic_name: str, subjects: int) -> None:
    """Write that many subjects with one version each."""
    async with KafkaTopic(ClientOptions.of(bootstrap_servers=bootstrap), topic_name) as topic:
        for first in range(0, subjects, BATCH):
            records = []
            for number in range(first, min(first + BATCH, subjects)):
                definition = Definition(RECORD % number)
                schema = StoredSchema(f"subject-{number}-value", 1, number + 1, definition.md5, definition)
                records.append(schema_record(schema).encode())
            await topic.append(records, first, new_uuid().bytes, 1)


def start_registry(bootstrap: str, topic: str) -> tuple[Any, str]:
    """Start a registry process; return it and its URL."""
    words = ["registry", "serve", "--bootstrap", bootstrap, "--listen", "127.0.0.1:0", "--topic", topic]
    process = subprocess.Popen([sys.executable, "-m", "ottla.cli", *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().split()[-1]


async def look_up(url: str, ids: int, seconds: float, least: int = 0) -> int:
    """Ask for ids over several connections, for a time and at least so often; return how often."""
    host, port = url.removeprefix("http://").split(":")
    end = time.perf_counter() + seconds
    answers = 0

    async def one(number: int) -> None:
        nonlocal answers
        reader, writer = await asyncio.open_connection(host, int(port))
        while time.perf_counter() < end or answers < least:
            number = (number * 7 + 1) % ids
            writer.write(
                b"GET /schemas/ids/%d HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\n\r\n" % (number + 1)
            )
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            answers += 1
        writer.close()

    await asyncio.gather(*(one(number) for number in range(CONNECTIONS)))
    return answers


async def register(url: str, count: int, prefix: str = "registered") -> list[float]:
    """Register schemas one after the other; return how long each took."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    times = []
    for number in range(count):
        body = json.dumps({"schema": RECORD % (10**6 + number)}).encode()
        head = f"POST /subjects/{prefix}-{number}/versions HTTP/1.1\r\n"
        head += f"host: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        started = time.perf_counter()
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        times.append(time.perf_counter() - started)
        assert answer.startswith(b"HTTP/1.1 200"), answer
    writer.close()
    return sorted(times)


async def load(bootstrap: str, topic_name: str) -> float:
    """Return how long it takes to read and replay all records of a topic, in seconds."""
    from ottla.registry.schema_log import SchemaLog

    async with KafkaTopic(ClientOptions.of(bootstrap_servers=bootstrap), topic_name) as topic:
        started = time.perf_counter()
        async with SchemaLog(topic) as log:
            await log.catch_up()
            return time.perf_counter() - started


def use(url: str, round_number: int, ids: int) -> None:
    """Look up ids and register schemas, as many in a second as a busy cluster does, until it is killed."""

    async def all_day() -> None:
        for number in range(10**6):
            await look_up(url, ids, 0.0, BUSY_LOOK_UPS // BUSY_REGISTRATIONS)
            await register(url, 1, f"busy-{round_number}-{number}")
            await asyncio.sleep(1 / BUSY_REGISTRATIONS)

    asyncio.run(all_day())


def produce(bootstrap: str, count: int) -> list[float]:
    """Write records one after the other; return how long each took."""
    times = []
    with Producer(bootstrap, acks="all", linger_ms=0) as producer:
        producer.send("latency", b"first").result(30)
        for _ in range(count):
            started = time.perf_counter()
            producer.send("latency", b"x" * 200).result(30)
            times.append(time.perf_counter() - started)
    return times


def produce_beside(bootstrap: str, url: str, ids: int, count: int) -> None:
    """Print the latency of produce requests without and with requests to the registry, in turns."""
    quiet: list[float] = []
    busy: list[float] = []
    for number in range(PRODUCE_ROUNDS):
        quiet += produce(bootstrap, count // PRODUCE_ROUNDS)
        user = multiprocessing.get_context("spawn").Process(target=use, args=(url, number, ids))
        user.start()
        try:
            time.sleep(2)  # it imports, and connects
            busy += produce(bootstrap, count // PRODUCE_ROUNDS)
        finally:
            user.kill()
            user.join()
    for times in (quiet, busy):
        times.sort()
        middle, late = times[len(times) // 2], times[int(len(times) * 0.99)]
        what = f"beside {BUSY_LOOK_UPS} look-ups and {BUSY_REGISTRATIONS} registrations/s"
        shown = what if times is busy else "alone"
        print(f"produce {shown}: p50 {middle * 1000:.2f} ms, p99 {late * 1000:.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--subjects", type=int, default=10_000)
    parser.add_argument("--registrations", type=int, default=500)
    parser.add_argument("--records", type=int, default=3_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder)).start() as broker:
        bootstrap = broker.address
        asyncio.run(fill(bootstrap, "_schemas", options.subjects))
        loads = sorted(asyncio.run(load(bootstrap, "_schemas")) for _ in range(3))
        print(f"{options.subjects:,} subjects loaded in {loads[0]:.2f} s, at worst {loads[-1]:.2f} s of 3")
        process, url = start_registry(bootstrap, "_schemas")
        try:
            watched = psutil.Process(process.pid)
            asyncio.run(look_up(url, options.subjects, 1.0))
            before = sum(watched.cpu_times()[:2])
            answers = asyncio.run(look_up(url, options.subjects, options.seconds))
            spent = sum(watched.cpu_times()[:2]) - before
            print(
                f"look-up by id: {answers / options.seconds:,.0f}/s, "
                f"{answers / max(spent, 0.01):,.0f} per second of CPU"
            )
            times = asyncio.run(register(url, options.registrations))
            middle, late = times[len(times) // 2], times[int(len(times) * 0.99)]
            print(f"register: p50 {middle * 1000:.1f} ms, p99 {late * 1000:.1f} ms")
            produce_beside(bootstrap, url, options.subjects, options.records)
        finally:
            process.terminate()
            process.wait(20)


if __name__ == "__main__":
    main()
