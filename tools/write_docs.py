"""Write the pages of docs/ that are made from the code. Run it with: make docs."""

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools.cli_reference import cli_page
from tools.decisions_index import decisions_page

from ottla.api.support.reference_pages import acl_page, api_page
from ottla.cli.support.problem_docs import problems_page
from ottla.client.api_docs import client_api_page
from ottla.client.options_docs import options_page
from ottla.common.config.docs import configuration_page
from ottla.connect.connector_docs import connectors_page
from ottla.metrics.metrics_docs import metrics_page
from ottla.protocol.errors import error_page
from ottla.spark.options_docs import connector_page, spark_options_page

DOCS = Path(__file__).parents[1] / "docs"

PAGES: dict[str, Callable[[], str]] = {
    "apis.md": api_page,
    "cli.md": cli_page,
    "client-options.md": options_page,
    "client-api.md": client_api_page,
    "configuration.md": configuration_page,
    "connectors.md": connectors_page,
    "errors.md": error_page,
    "metrics.md": metrics_page,
    "problems.md": problems_page,
    "security-acls.md": acl_page,
    "decisions/README.md": decisions_page,
    "spark-connector.md": connector_page,
    "spark-options.md": spark_options_page,
}
"""Each generated page, and the function that returns its text."""

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())
        print(f"docs/{name}")
