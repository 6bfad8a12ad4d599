"""The table of APIs is whole: what it advertises is there, and nothing is there twice."""

import inspect
from importlib import import_module

import pytest

from ottla.api.table import APIS, ROWS, Api, Range
from ottla.protocol.schema.messages import request_class, response_class

rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.key.name}-{row.max_version}")
apis = pytest.mark.parametrize("row", APIS.values(), ids=lambda row: row.name)


@rows
def test_every_row_names_a_function_that_takes_a_request_and_its_context(row: Range) -> None:
    parameters = list(inspect.signature(row.load()).parameters)
    assert len(parameters) == (2 if row.kind == "message" else 3)
    assert parameters[-1] == "ctx"


@rows
def test_every_served_version_has_a_schema(row: Range) -> None:
    for version in range(row.min_version, row.max_version + 1):
        assert request_class(row.key, version).__version__ == version
        assert response_class(row.key, version).__version__ == version


@apis
def test_the_versions_of_an_api_have_no_gap_and_no_overlap(row: Api) -> None:
    served = [version for each in row.ranges for version in range(each.min_version, each.max_version + 1)]
    assert sorted(served) == list(range(row.min_version, row.max_version + 1))


@apis
def test_an_api_lives_in_one_file_that_says_what_it_is_for(row: Api) -> None:
    (module,) = {each.module for each in row.ranges}
    first_line = (inspect.getdoc(import_module(module)) or "").splitlines()[0]
    assert first_line.startswith(f"{row.name}: ")
