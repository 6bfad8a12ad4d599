"""Which settings a session has: those for small batches on this machine only."""

from __future__ import annotations

from ottla.spark.pipelines.run.sessions import DEFAULTS
from ottla.spark.runtime.builder import default_settings


def test_a_cluster_keeps_sparks_own_shuffle_partitions_and_user_interface() -> None:
    here, there = (default_settings(each) | DEFAULTS for each in ("local[4]", "spark://head:7077"))
    assert (here["spark.sql.shuffle.partitions"], here["spark.ui.enabled"]) == ("4", "false")
    assert not {"spark.sql.shuffle.partitions", "spark.ui.enabled"} & there.keys()
    assert there["spark.speculation"] == "false"


def test_a_driver_without_executors_listens_on_loopback_only() -> None:
    here, there = default_settings("local[2]"), default_settings("spark://head:7077")
    assert (here["spark.driver.bindAddress"], here["spark.driver.host"]) == ("127.0.0.1", "127.0.0.1")
    assert not {"spark.driver.bindAddress", "spark.driver.host"} & there.keys()
