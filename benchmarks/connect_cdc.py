"""Change data capture: PostgreSQL -> topic -> PostgreSQL, its snapshot, its changes per second, and its lag.

    python -m benchmarks.connect_cdc --rows 1000000 --rates 1000,2000,5000,10000 --seconds 60

Each rate runs for so many seconds, with a new column in the middle of the first. The lag is the age of the
newest change in the mirror table, seen twice a second. At the end both tables must have the same rows. Needs
PostgreSQL's packages. CPU seconds of the snapshot are those of the worker with its engine, JVM and Python
workers, those of changes are of all: also of the broker, PostgreSQL, and what makes the changes.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
from tests.integration.connect_stage import call
from tests.interop.connect_worker import WorkerProcess
from tests.postgres_server import PostgresServer, postgres_server

from ottla.testing.broker_process import BrokerProcess

ROWS_AT_ONCE = 100
WITHIN_S = 600.0
SCHEMAS = {
    "value.converter.schemas.enable": "true",
    "key.converter.schemas.enable": "true",
    **{f"{each}.converter": "org.apache.kafka.connect.json.JsonConverter" for each in ("key", "value")},
}
DIGEST = "SELECT count(*), md5(string_agg(to_jsonb(t)::text, ';' ORDER BY id)) FROM {} t"
NEWEST = "SELECT max(at)::timestamp FROM mirrored WHERE id = ANY(%s)"
REMEMBERED_S, MARK_S = 120.0, 0.1


class Writer(threading.Thread):
    """Changes rows at a rate: each transaction updates some rows that follow each other."""

    def __init__(self, url: str, rows: int, rate: int, seconds: float) -> None:
        super().__init__(daemon=True)
        self.url, self.rows, self.rate, self.seconds = url, rows, rate, seconds
        self.changes = 0
        self._marks: deque[tuple[float, int]] = deque(maxlen=int(REMEMBERED_S / MARK_S))
        """When which row was changed, not closer than MARK_S; the last one of all at the end."""

    def marks(self) -> list[int]:
        """Return some of the rows that were changed lately: keys to look up, not a table to scan."""
        return [each[1] for each in list(self._marks)]

    def run(self) -> None:
        """Change rows until the time is over."""
        began = time.monotonic()
        with psycopg.connect(self.url, autocommit=True) as database:
            while (passed := time.monotonic() - began) < self.seconds:
                if self.changes >= passed * self.rate:
                    time.sleep(0.002)
                    continue
                first = self.changes % (self.rows - ROWS_AT_ONCE) + 1
                database.execute(
                    "UPDATE items SET price = price + 1, at = clock_timestamp() WHERE id >= %s AND id < %s",
                    (first, first + ROWS_AT_ONCE),
                )
                self.changes += ROWS_AT_ONCE
                if not self._marks or time.monotonic() - self._marks[-1][0] > MARK_S:
                    self._marks.append((time.monotonic(), first))
            self._marks.append((time.monotonic(), first))


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and all below it, as far as they live."""
    total = 0.0
    process = psutil.Process(pid)
    for each in [process, *process.children(recursive=True)]:
        with suppress(psutil.Error):
            times = each.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def own_seconds(process: psutil.Process) -> float:
    """Return the CPU time of a process itself."""
    times = process.cpu_times()
    return float(times.user + times.system)


class Run:
    """A broker, a worker and two connectors around a database."""

    def __init__(
        self, server: PostgresServer, broker: BrokerProcess, worker: WorkerProcess, rows: int
    ) -> None:
        self.server, self.broker, self.worker, self.rows = server, broker, worker, rows
        self.postmaster = int((server.data / "postmaster.pid").read_text().split()[0])

    def one(self, query: str, *values: Any) -> Any:
        """Return the first column of the first row."""
        with psycopg.connect(self.server.url) as database:
            row = database.execute(query, values).fetchone()
            return None if row is None else row[0]

    def create(self) -> None:
        """Create the connectors."""
        source = {
            "connector.class": "PostgresCdcSource",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.server.port),
            "database.user": "tester",
            "database.dbname": "postgres",
            "topic.prefix": "shop",
            "table.include.list": "public.items",
            **SCHEMAS,
        }
        sink = {
            "connector.class": "PostgresSink",
            "topics": "shop.public.items",
            "connection.url": self.server.url,
            "table.name.format": "mirrored",
            "auto.create": "true",
            "auto.evolve": "true",
            **SCHEMAS,
        }
        for name, config in (("items", source), ("mirror", sink)):
            answer = call(self.worker.url, "PUT", f"/connectors/{name}/config", config)
            if answer.status != 201:
                raise SystemExit(f"{name}: {answer}")

    def cpu(self) -> float:
        """Return the CPU time of the worker."""
        assert self.worker.process is not None
        return cpu_seconds(self.worker.process.pid)

    def shares(self) -> dict[str, float]:
        """Return the CPU time of each part so far."""
        assert self.worker.process is not None
        pid = self.worker.process.pid
        found = {"worker": own_seconds(psutil.Process(pid))}
        for each in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.Error):
                if each.name() == "java":
                    found["JVM"] = own_seconds(each)
                elif "ottla.connect.engine.process" in each.cmdline():
                    found["engine"] = own_seconds(each)
        found["Python workers"] = cpu_seconds(pid) - sum(found.values())
        found["broker"] = cpu_seconds(self.broker.pid)
        found["PostgreSQL"] = cpu_seconds(self.postmaster)
        found["this program"] = own_seconds(psutil.Process())
        return found

    def snapshot(self) -> None:
        """Wait for the snapshot, and say how fast it was."""
        began, cpu = time.monotonic(), self.cpu()
        self.create()
        first = None
        while (found := self._count()) < self.rows:
            if found and first is None:
                first = time.monotonic()
            if time.monotonic() - began > WITHIN_S:
                raise SystemExit(f"the snapshot has {found} of {self.rows} rows after {WITHIN_S} s")
            time.sleep(0.2)
        took, used = time.monotonic() - began, self.cpu() - cpu
        moving = time.monotonic() - (first or began)
        print(
            f"snapshot of {self.rows:,} rows: {took:.1f} s with the start of Spark, {moving:.1f} s from the "
            f"first rows on; {self.rows / took:,.0f} rows/s; {self.rows / used:,.0f} rows per CPU second",
            flush=True,
        )

    def _count(self) -> int:
        with suppress(psycopg.Error):
            return int(self.one("SELECT count(*) FROM mirrored"))
        return 0

    def changes(self, rate: int, seconds: float, *, new_column: bool) -> bool:
        """Change rows at a rate; return whether the lag stayed under 2 s."""
        writer, cpu = Writer(self.server.url, self.rows, rate, seconds), self.shares()
        lags: list[float] = []
        began = time.monotonic()
        writer.start()
        altered = not new_column
        while writer.is_alive():
            time.sleep(0.5)
            newest = self.one(
                f"SELECT extract(epoch FROM clock_timestamp()::timestamp - ({NEWEST}))", writer.marks()
            )
            if newest is not None:
                lags.append(min(float(newest), time.monotonic() - began))  # what is older is the snapshot's
            if not altered and time.monotonic() - began > seconds / 2:
                altered = True
                with psycopg.connect(self.server.url, autocommit=True) as database:
                    database.execute("ALTER TABLE items ADD COLUMN more text")
                    database.execute("UPDATE items SET more = 'x' WHERE id <= 10")
        behind = self._until_there(writer.marks())
        used = {name: after - cpu.get(name, 0.0) for name, after in self.shares().items()}
        same = self._is_same()
        worst = max(lags, default=0.0)
        print(
            f"{rate:,}/s asked, {writer.changes / seconds:,.0f}/s made for {seconds:.0f} s: lag "
            f"{statistics.median(lags) if lags else 0:.2f} s in the middle, {worst:.2f} s at most; "
            f"{'the same rows' if same else 'NOT the same rows'} {behind:.1f} s after the end; "
            f"{writer.changes / sum(used.values()):,.0f} changes per CPU second",
            flush=True,
        )
        each = {name: spent / writer.changes * 1e6 for name, spent in used.items()}
        print(
            "CPU us of a change: " + ", ".join(f"{name} {spent:.1f}" for name, spent in each.items()),
            flush=True,
        )
        return worst < 2.0

    def _until_there(self, rows: list[int]) -> float:
        """Wait until the mirror has the last change; return for how long."""
        began = time.monotonic()
        newest = self.one("SELECT max(at)::timestamp FROM items WHERE id = ANY(%s)", rows)
        while self.one(NEWEST, rows) != newest and time.monotonic() - began < WITHIN_S:
            time.sleep(0.1)
        return time.monotonic() - began

    def _is_same(self) -> bool:
        with psycopg.connect(self.server.url) as database:
            one, two = (database.execute(DIGEST.format(each)).fetchone() for each in ("items", "mirrored"))
        return bool(one == two)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rates", default="1000,2000,5000,10000")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument(
        "--all", action="store_true", help="run faster rates, too, when the lag was above 2 s"
    )
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="ottla-cdc-") as folder,
        postgres_server() as server,
        BrokerProcess(Path(folder) / "broker") as broker,
        WorkerProcess(broker.address, Path(folder)) as worker,
    ):
        with psycopg.connect(server.url, autocommit=True) as database:
            database.execute(
                "CREATE TABLE items (id int PRIMARY KEY, name text, price numeric(12,3), at timestamp)"
            )
            database.execute(
                "INSERT INTO items SELECT g, 'name of ' || g, g / 7.0, now() FROM generate_series(1, %s) g",
                (chosen.rows,),
            )
        run = Run(server, broker, worker, chosen.rows)
        run.snapshot()
        for number, rate in enumerate(map(int, chosen.rates.split(","))):
            if not run.changes(rate, chosen.seconds, new_column=number == 0) and not chosen.all:
                print("the lag was above 2 s: faster rates are left out")
                break
        worker.stop()


if __name__ == "__main__":
    main()
