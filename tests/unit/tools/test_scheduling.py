from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests import scheduling
from tests.scheduling import LongestFirst, shares_session

SPARK = "tests/spark/test_pipelines.py"
SPARK_LONG = "tests/spark/test_sink.py"
OWN_JVM = "tests/spark/test_java.py"
LONG = "tests/cluster/test_kill.py"
SHORT = "tests/unit/log/test_log.py"


class Worker:
    """Runs its tests as pytest-xdist's workers do: a test only if it has the one after it, too."""

    def __init__(self) -> None:
        self.indices: list[int] = []
        self.files: list[str] = []
        self.shutting_down = False
        self.gateway = SimpleNamespace(id="gw")

    def send_runtest_some(self, indices: list[int]) -> None:
        self.indices += indices

    def shutdown(self) -> None:
        self.shutting_down = True

    def run_one(self, scheduler: Any, tests: list[str]) -> bool:
        if len(self.indices) < 2 and not (self.indices and self.shutting_down):
            return False
        index = self.indices.pop(0)
        self.files.append(tests[index].split("::")[0])
        scheduler.mark_test_complete(self, index)
        return True


def run(tests: list[str], workers: int = 2) -> list[list[str]]:
    """Return the files that each worker ran, if all run at the same speed."""
    options = SimpleNamespace(loadscopereorder=True)
    config = SimpleNamespace(getvalue=lambda _: ["popen"] * workers, option=options)
    scheduler: Any = LongestFirst(config)  # type: ignore[arg-type]
    nodes = [Worker() for _ in range(workers)]
    for node in nodes:
        scheduler.add_node(node)
        scheduler.add_node_collection(node, tests)
    scheduler.schedule()
    busy = nodes
    while busy:
        busy = [node for node in nodes if node.run_one(scheduler, tests)]
    ran = sorted(path for node in nodes for path in node.files)
    assert ran == sorted(each.split("::")[0] for each in tests)
    return [list(dict.fromkeys(node.files)) for node in nodes]


def cases(path: str, count: int) -> list[str]:
    return [f"{path}::test_{number}" for number in range(count)]


def test_one_worker_runs_the_files_of_the_spark_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "WEIGHTS", {LONG: 60, SPARK_LONG: 50})
    tests = [*cases(SHORT, 30), *cases(SPARK, 4), *cases(SPARK_LONG, 2), *cases(LONG, 3)]

    first, second = run(tests)

    assert first == [SPARK_LONG, SPARK]
    assert second == [LONG, SHORT]


def test_nothing_waits_behind_a_long_test_that_another_worker_could_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scheduling, "WEIGHTS", {LONG: 60})
    assert [sorted(files) for files in run([*cases(LONG, 2), *cases(SHORT, 1)])] == [[LONG], [SHORT]]
    assert run([]) == [[], []]


def test_a_worker_without_other_files_helps_with_those_of_spark() -> None:
    assert run([*cases(SPARK, 9), *cases(SPARK_LONG, 8)]) == [[SPARK], [SPARK_LONG]]


def test_files_that_start_a_jvm_of_their_own_are_for_every_worker() -> None:
    assert shares_session(SPARK)
    assert not shares_session(OWN_JVM)
    assert not shares_session(SHORT)


def test_the_files_and_folders_of_the_table_exist() -> None:
    assert [path for path in scheduling.WEIGHTS if not (scheduling.ROOT / path).exists()] == []
