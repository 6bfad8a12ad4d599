"""The page about the clients' options, made from their declarations: docs/client-options.md."""

from __future__ import annotations

from typing import Any

from ottla.client.client_options import ClientOptions
from ottla.client.consumer.options import ConsumerOptions
from ottla.client.producer.options import ProducerOptions
from ottla.common.config.options import Options

HEAD = """\
# Options of the clients

Made from the code by `make docs`. Names are given as keyword arguments, as here, or with dots, as
Kafka writes them: `Producer(linger_ms=5)`, `Producer(**{"linger.ms": 5})`. Values may be text, as in
a properties file.
"""


def options_page() -> str:
    """Return the page."""
    common = set(ClientOptions.declared())
    parts = [HEAD, "## All clients\n", _table(ClientOptions, common)]
    clients: list[tuple[str, type[Options]]] = [("Producer", ProducerOptions), ("Consumer", ConsumerOptions)]
    for title, options in clients:
        parts += [f"## {title}\n", _table(options, set(options.declared()) - common)]
    return "\n".join(parts)


def _table(options: type[Options], names: set[str]) -> str:
    rows = ["| option | default | meaning | also called |", "|---|---|---|---|"]
    for name, key in options.declared().items():
        if name in names:
            aliases = ", ".join(f"`{each.replace('_', '.')}`" for each in key.aliases)
            rows.append(f"| `{name}` | {_shown(key.default)} | {key.doc} | {aliases} |")
    return "\n".join(rows) + "\n"


def _shown(default: Any) -> str:
    return "" if default is None or default == () else f"`{default}`"
