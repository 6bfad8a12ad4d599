"""Which settings send the package to executors."""

from __future__ import annotations

from pathlib import Path

from ottla.spark.runtime.shipping import settings_to_ship

PACKAGE = Path("/jobs/ottla.zip")


def test_the_package_is_sent_and_found_in_the_executors_folder() -> None:
    assert settings_to_ship(PACKAGE) == {
        "spark.files": "/jobs/ottla.zip",
        "spark.executorEnv.PYTHONPATH": "ottla.zip",
    }


def test_what_the_user_sends_and_has_on_the_path_stays() -> None:
    conf = {
        "spark.files": "/jobs/rates.csv",
        "spark.executorEnv.PYTHONPATH": "/opt/lib",
        "spark.cores.max": "2",
    }

    assert settings_to_ship(PACKAGE, conf) == {
        "spark.files": "/jobs/ottla.zip,/jobs/rates.csv",
        "spark.executorEnv.PYTHONPATH": "ottla.zip:/opt/lib",
    }
