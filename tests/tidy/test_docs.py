"""The documentation says what the code does."""

import re
import tomllib
from pathlib import Path

import pytest
from tools.decisions_index import decisions_page

from ottla.api.support.table_docs import api_page
from ottla.cli.support.problem_docs import problems_page
from ottla.client.api_docs import client_api_page
from ottla.client.options_docs import options_page
from ottla.common.config.docs import configuration_page
from ottla.metrics.metrics_docs import metrics_page
from ottla.protocol.errors import error_page
from ottla.spark.options_docs import spark_options_page

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("apis.md", api_page),
        ("client-options.md", options_page),
        ("client-api.md", client_api_page),
        ("configuration.md", configuration_page),
        ("errors.md", error_page),
        ("metrics.md", metrics_page),
        ("problems.md", problems_page),
        ("decisions/README.md", decisions_page),
        ("spark-options.md", spark_options_page),
    ],
)
def test_a_generated_page_is_up_to_date(page: str, text) -> None:
    assert (DOCS / page).read_text() == text(), f"run: make docs   (docs/{page} is out of date)"


def test_the_table_of_packages_lists_them_all_in_the_order_of_their_layers() -> None:
    settings = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())
    layers, *_ = settings["tool"]["importlinter"]["contracts"]
    in_order = [name for layer in layers["layers"] for name in re.findall(r"\w+", layer)]
    table = next(
        block
        for block in re.findall(r"```\n(.*?)```", (DOCS / "architecture.md").read_text(), re.DOTALL)
        if block.startswith("cli ")
    )
    listed = [line.split()[0] for line in table.splitlines()]
    assert listed == in_order
    packages = {path.parent.name for path in (DOCS.parent / "src/ottla").glob("*/__init__.py")}
    assert packages == set(listed)
