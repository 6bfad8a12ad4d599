import inspect

import pytest

import ottla.client


@pytest.mark.parametrize("name", ottla.client.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name):
    assert inspect.getdoc(getattr(ottla.client, name))
    assert name in dir(ottla.client)


def test_type_checkers_see_every_public_name():
    source = inspect.getsource(ottla.client)
    missing = [name for name in ottla.client.__all__ if f"import {name} as {name}\n" not in source]
    assert missing == []


def test_other_names_are_not_there():
    with pytest.raises(AttributeError, match="has no attribute 'Prodcuer'"):
        ottla.client.Prodcuer  # noqa: B018
