"""Write the pages of docs/ that are made from the code. Run it with: make docs."""

from pathlib import Path

from ottla.api.table_docs import api_page
from ottla.client.api_docs import client_api_page
from ottla.client.options_docs import options_page
from ottla.common.config_docs import configuration_page
from ottla.protocol.errors_docs import error_page

DOCS = Path(__file__).parents[1] / "docs"

for name, page in (
    ("apis.md", api_page),
    ("client-options.md", options_page),
    ("client-api.md", client_api_page),
    ("configuration.md", configuration_page),
    ("errors.md", error_page),
):
    (DOCS / name).write_text(page())
    print(f"docs/{name}")
