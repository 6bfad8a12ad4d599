"""Fetch Apache Kafka's server, clients and tools into `.jars/`, for the tests in this folder.

    python tests/interop/fetch_jars.py            # what `make interop` runs first
    python tests/interop/fetch_jars.py --list     # what is there

Maven does the work from a small pom written to a temporary folder, so it looks where the user's own Maven
settings say. The jars of one release fill `.jars/kafka-<version>/`, which appears in one rename: a folder
that exists is complete, and is not fetched again.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

KAFKA_VERSION = "4.1.1"
SCALA_SUFFIX = "2.13"
JARS_ROOT = Path(__file__).resolve().parents[2] / ".jars"
KAFKA_JARS = JARS_ROOT / f"kafka-{KAFKA_VERSION}"

# (group, artifact, version): the tools bring the clients, the server brings DumpLogSegments and KRaft.
ARTIFACTS = (
    ("org.apache.kafka", f"kafka_{SCALA_SUFFIX}", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-clients", KAFKA_VERSION),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)

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
      <version>{}</version>
    </dependency>"""


def fetch(target: Path = KAFKA_JARS) -> None:
    """Fill `target` with the jars unless it is already there."""
    if target.is_dir():
        return
    maven = shutil.which("mvn")
    if maven is None:
        raise SystemExit(
            "Maven is not installed, so Kafka's jars cannot be fetched; try: apt-get install maven"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        pom = Path(scratch, "pom.xml")
        pom.write_text(POM.format(dependencies="\n".join(DEPENDENCY.format(*one) for one in ARTIFACTS)))
        jars = Path(scratch, "jars")
        command = [maven, "--batch-mode", "--quiet", "--file", str(pom), "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={jars}", "-DincludeScope=runtime"]
        done = subprocess.run(command, check=False)
        if done.returncode != 0:
            raise SystemExit(f"Maven failed with exit code {done.returncode}; its own output is above")
        jars.rename(target)


def main() -> None:
    """Fetch the jars, or list them."""
    parser = argparse.ArgumentParser(description="Fetch Apache Kafka's jars for tests/interop.")
    parser.add_argument("--list", action="store_true", help="list the jars that are there, fetch nothing")
    wants_list = parser.parse_args().list
    if not wants_list:
        fetch()
    if not KAFKA_JARS.is_dir():
        sys.exit(f"{KAFKA_JARS} is not there; fetch it with: make interop")
    jars = sorted(KAFKA_JARS.glob("*.jar"))
    print("\n".join(map(str, jars)) if wants_list else f"{len(jars)} jars in {KAFKA_JARS}")


if __name__ == "__main__":
    main()
