"""Gives test files to the workers of pytest-xdist: the longest first, those of one Spark session to one.

`--dist loadfile` begins with the files that have the most tests. A file with one test of a minute may start
last, while the other workers have nothing left to do. Each worker that runs a file of tests/spark starts a
JVM for it, which costs more than most of these files.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).resolve().parents[1]
WEIGHTS = {
    "tests/spark": 30,
    "tests/cluster": 25,
    "tests/simulation": 20,
    "tests/fuzz": 20,
    "tests/docs": 20,
    "tests/integration": 10,
    "tests/interop": 10,
    "tests/interop/console": 10,
    "tests/docs/test_command_blocks.py": 200,
    "tests/cluster/test_power_cut.py": 90,
    "tests/cluster/test_rebuild.py": 90,
    "tests/cluster/test_kill_cleanup.py": 80,
    "tests/cluster/test_kill_admin.py": 70,
    "tests/cluster/test_kill.py": 70,
    "tests/cluster/test_ottla_producer_faults.py": 60,
    "tests/fuzz/test_fuzz_dispatcher.py": 100,
    "tests/fuzz/test_fuzz_before_authentication.py": 60,
    "tests/integration/test_registry_leader_kill.py": 60,
    "tests/integration/test_serve_cluster.py": 50,
    "tests/integration/test_dynamic_keys.py": 40,
    "tests/simulation/test_clusters.py": 90,
    "tests/simulation/test_transaction_clusters.py": 60,
    "tests/spark/test_standalone_cluster.py": 120,
    "tests/spark/test_connect.py": 110,
    "tests/spark/test_fault_injection.py": 100,
    "tests/spark/test_sink_crashes.py": 80,
    "tests/spark/test_json_like_spark.py": 60,
    "tests/spark/test_recipes.py": 60,
    "tests/spark/test_connect_client.py": 50,
    "tests/spark/test_pipeline_cli.py": 50,
    "tests/interop/test_connect_cdc.py": 300,
    "tests/interop/test_our_clients_on_kafka.py": 250,
    "tests/interop/test_spark_connector.py": 80,
    "tests/interop/test_exactly_once_kills.py": 75,
    "tests/interop/test_registry_on_kafka.py": 65,
    "tests/interop/test_starved_kafka.py": 70,
    "tests/interop/test_connect_search.py": 60,
    "tests/interop/test_security_mechanisms.py": 60,
    "tests/interop/test_admin_calls.py": 55,
    "tests/interop/console/test_console_clusters.py": 50,
    "tests/interop/test_spark_options.py": 45,
    "tests/interop/test_postgres_jdbc.py": 45,
    "tests/interop/test_client_security.py": 40,
    "tests/interop/test_connect_rest.py": 30,
    "tests/interop/test_cli_not_allowed.py": 20,
    "tests/interop/console/test_console_connectors.py": 20,
    "tests/interop/console/test_console_login.py": 20,
}
"""Which files take longest, and those of which folders: a rank, not seconds. Unit tests have 0."""
_ASKS_FOR_SESSION = re.compile(r"def \w+\([^)]*\b(?:spark|source|stream)\b\s*[:,)]")


@cache
def shares_session(path: str) -> bool:
    """Return whether the tests of a file use the Spark session of their worker."""
    return path.startswith("tests/spark/") and _ASKS_FOR_SESSION.search((ROOT / path).read_text()) is not None


def weight(path: str) -> int:
    """Return the rank of a file."""
    return WEIGHTS.get(path, WEIGHTS.get(path.rpartition("/")[0], 0))


class LongestFirst(LoadFileScheduling):
    """Assigns the longest file next; those of the Spark session to the worker that began with them."""

    _spark_worker: WorkerController | None = None

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(self._next_file(node), last=False)
        super()._assign_work_unit(node)

    def _next_file(self, node: WorkerController) -> str:
        if self._spark_worker not in self.assigned_work:
            self._spark_worker = node  # the first that asks; another one if that has died
        wanted = [path for path in self.workqueue if shares_session(path) == (node is self._spark_worker)]
        # The queue begins with the files that have the most tests, and max() returns the first of equals.
        return max(wanted or self.workqueue, key=weight)

    def _reschedule(self, node: WorkerController) -> None:
        # A worker needs one test beyond the one that it runs. More would wait behind a long test.
        if not self.workqueue or self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)
