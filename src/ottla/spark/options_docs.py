"""The reference page of the options of the data source, generated from their declarations:
docs/spark-options.md.
"""

from __future__ import annotations

from ottla.spark.options import OPTIONS, REFUSED_CLIENT_OPTIONS, SINK, SOURCE

HEAD = """\
# Options of the format `ottla` for Spark

Made from the code by `make docs`; [spark.md](spark.md) says how they are used. Upper and lower case are the
same. `kafka.bootstrap.servers` must be given; every other `kafka.NAME` goes to the client
([client-options.md](client-options.md)). Unknown names are refused.
"""


def spark_options_page() -> str:
    """Return the page."""
    parts = [HEAD]
    for use, title in ((SOURCE, "Reading"), (SINK, "Writing")):
        rows = ["| option | default | meaning |", "|---|---|---|"]
        used = (each for each in OPTIONS if use in each.uses)
        rows += [f"| `{each.name}` | {each.shown_default} | {each.doc} |" for each in used]
        refused = [f"- `kafka.{name}`: {why}" for name, why in REFUSED_CLIENT_OPTIONS[use].items()]
        parts += [f"## {title}\n", "\n".join(rows) + "\n", "Refused:\n", "\n".join(refused) + "\n"]
    return "\n".join(parts)
