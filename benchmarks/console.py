"""The web console: pages of many topics, a tail of a busy topic, a search of many records.

    python -m benchmarks.console topics --topics 1000
    python -m benchmarks.console tail --rate 50000 --seconds 15 --rounds 3
    python -m benchmarks.console search --records 10000000

Broker, console, load and probe are processes of their own. `tail` sends a record every 5 ms beside the load
and times its acknowledgement, in turns without and with a browser that follows the topic; the memory of the
tab is that of its renderer (proportional set size, without what processes share). Needs Debian's chromium.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.waiting import wait_until

from benchmarks.connect_cdc import cpu_seconds
from benchmarks.measure import machine
from ottla.testing.broker_process import BrokerProcess, free_port

CHROMIUM = "/usr/bin/chromium"
PROBE_EVERY_S = 0.005
CLUSTER = "default"
PARTITIONS = 6
PAGES = ("", "/topics", "/topics?q=topic-07", "/topics?sort=-size", "/brokers", "/topics/topic-0001")


@contextmanager
def console_of(broker: BrokerProcess) -> Iterator[tuple[str, int]]:
    """Run a console of a broker; yield its address and its process."""
    url = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "ottla.cli.main", "console", "serve"]
    command += ["--bootstrap-server", broker.address, "--registry", "", "--connect", ""]
    command += ["--listen", url.removeprefix("http://")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def answers() -> bool:
        try:
            return httpx.get(f"{url}/c/{CLUSTER}").status_code == 200
        except httpx.HTTPError:
            return False

    try:
        wait_until(answers, "the console to answer", 60)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(30)


def create(broker: BrokerProcess, topics: list[NewTopic]) -> None:
    """Create topics, a hundred at once."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    for begin in range(0, len(topics), 100):
        made = admin.create_topics(topics[begin : begin + 100], operation_timeout=60, request_timeout=90)
        for future in made.values():
            future.result(90)


def topics(broker: BrokerProcess, count: int) -> None:
    """Time the pages that list everything."""
    create(broker, [NewTopic(f"topic-{number:04}", 10, 1) for number in range(count)])
    with console_of(broker) as (url, _):
        for path in (
            "",
            "/topics",
            "/topics?q=topic-07",
            "/topics?sort=-size",
            "/brokers",
            "/topics/topic-0001",
        ):
            times = [_page_ms(f"{url}/c/{CLUSTER}{path}") for _ in range(15)]
            middle, longest = statistics.median(times), max(times)
            print(f"{path or '/':24} median {middle:6.0f} ms, longest {longest:6.0f} ms")


def _page_ms(url: str) -> float:
    began = time.perf_counter()
    answer = httpx.get(url, timeout=60)
    answer.raise_for_status()
    return (time.perf_counter() - began) * 1000


def send_at_rate(address: str, rate: int) -> None:
    """Send records of 200 bytes at a rate until the process is ended."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "compression.type": "lz4"})
    value = json.dumps({"filler": "x" * 180}).encode()
    began, sent = time.perf_counter(), 0
    while True:
        due = int((time.perf_counter() - began) * rate)
        for number in range(sent, due):
            producer.produce("busy", value, partition=number % PARTITIONS)
        sent = due
        producer.poll(0.002)


def probe(address: str, seconds: float) -> None:
    """Print how long the acknowledgement of single records takes, in milliseconds, as JSON."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "acks": "all"})
    times: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        producer.produce(
            "busy", b"{}", on_delivery=lambda *_, began=began: times.append(time.perf_counter() - began)
        )
        while len(producer):
            producer.poll(0.5)
        time.sleep(max(0.0, began + PROBE_EVERY_S - time.perf_counter()))
    print(json.dumps([each * 1000 for each in times]))


def _probed(broker: BrokerProcess, seconds: float) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.console", "probe", broker.address, str(seconds)]
    times: list[float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return sorted(times)


def tail(broker: BrokerProcess, rate: int, seconds: float, rounds: int) -> None:
    """Time produce requests beside a load, without and with a browser that shows it."""
    from playwright.sync_api import sync_playwright

    create(broker, [NewTopic("busy", PARTITIONS, 1)])
    command = [sys.executable, "-m", "benchmarks.console", "send", broker.address, str(rate)]
    with console_of(broker) as (url, pid), subprocess.Popen(command) as load, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = chromium.new_page()
        pages = {"without": "about:blank", "with": f"{url}/c/{CLUSTER}/topics/busy/messages?live=true"}
        p99s: dict[str, list[float]] = {name: [] for name in pages}
        try:
            _probed(broker, 3)
            for name in [*pages] * rounds:
                page.goto(pages[name])
                cpu = cpu_seconds(pid)
                times = _probed(broker, seconds)
                share = (cpu_seconds(pid) - cpu) / seconds
                said = page.locator("#tail-text").inner_text() if name == "with" else ""
                p99s[name].append(_at(times, 0.99))
                shown = f"p50 {_at(times, 0.5):6.2f} ms, p99 {p99s[name][-1]:6.2f} ms"
                print(f"{name:8} {shown}, console {share:4.0%} of a core  {said}")
            for name, several in p99s.items():
                print(f"{name:8} median of {rounds} p99: {statistics.median(several):.2f} ms")
            heap = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
            rows = page.locator("#messages tr.message").count()
            print(f"the tab: {max(_renderers_mb()):.0f} MB, heap of scripts {heap:.1f} MB, {rows} rows")
        finally:
            load.kill()
            chromium.close()


def _at(times: list[float], part: float) -> float:
    return times[min(len(times) - 1, int(part * len(times)))]


def _renderers_mb() -> list[float]:
    """Return the memory of the renderers of Chromium, in megabytes."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and b"--type=renderer" in (folder / "cmdline").read_bytes():
                lines = (folder / "smaps_rollup").read_text().splitlines()
                found += [int(each.split()[1]) / 1000 for each in lines if each.startswith("Pss:")]
        except OSError:
            continue
    return found


def search(broker: BrokerProcess, records: int) -> None:
    """Time a search that decodes every record, one that skips batches by their bytes, and a cancel."""
    create(broker, [NewTopic("many", PARTITIONS, 1)])
    producer = Producer(
        {
            "bootstrap.servers": broker.address,
            "queue.buffering.max.messages": 1_000_000,
            "linger.ms": 20,
            "compression.type": "lz4",
        }
    )
    for number in range(records):
        value = f'{{"id": "o-{number:08}", "total": {number}, "country": "NO"}}'
        while True:
            try:
                producer.produce("many", value, partition=number * PARTITIONS // records)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise RuntimeError("the topic could not be filled")
    with console_of(broker) as (url, pid):
        target = f"{url}/api/clusters/{CLUSTER}/topics/many/search"
        middle = f"value CONTAINS 'o-{records // 2:08}'"
        for start, where in (
            ("oldest", middle),
            ("newest", middle),
            ("oldest", f"$.total = {records // 100}"),
            ("newest", f"$.total = {records - records // 100}"),
        ):
            first, last, seconds = _searched(target, where, start)
            print(f"from {start} {where:36} first hit after {first:.2f} s; {last} in {seconds:.1f} s")
        began = time.perf_counter()
        with httpx.stream("GET", target, params={"where": "$.total < 0"}, timeout=60) as answer:
            for _ in answer.iter_lines():
                if time.perf_counter() - began > 3:
                    break
        time.sleep(0.5)
        cpu = cpu_seconds(pid)
        time.sleep(3)
        print(f"after a cancel the console takes {(cpu_seconds(pid) - cpu) / 3:.0%} CPU")


def _searched(url: str, where: str, start: str) -> tuple[float, str, float]:
    began, first, last, event = time.perf_counter(), float("nan"), "", ""
    with httpx.stream("GET", url, params={"where": where, "start": start}, timeout=None) as answer:
        for line in answer.iter_lines():
            event = line.removeprefix("event: ") if line.startswith("event: ") else event
            if line.startswith("data: ") and event == "rows" and first != first:
                first = time.perf_counter() - began
            elif line.startswith("data: ") and event == "progress":
                numbers = json.loads(line.removeprefix("data: "))
                last = "{found} found in {scanned:,} records, {rate:,} records/s".format(**numbers)
            elif event == "end":
                break
    return first, last, time.perf_counter() - began


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console", description=__doc__)
    parser.add_argument("what", choices=("topics", "tail", "search", "send", "probe"))
    parser.add_argument("given", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--rate", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=10_000_000)
    options = parser.parse_args()
    if options.what == "send":
        send_at_rate(options.given[0], int(options.given[1]))
        return
    if options.what == "probe":
        probe(options.given[0], float(options.given[1]))
        return
    print(machine())
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder, BrokerProcess(Path(folder)) as broker:
        if options.what == "topics":
            topics(broker, options.topics)
        elif options.what == "tail":
            tail(broker, options.rate, options.seconds, options.rounds)
        else:
            search(broker, options.records)


if __name__ == "__main__":
    main()
