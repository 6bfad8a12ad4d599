"""Names of a package that are imported when they are first used."""

import subprocess
import sys

import pytest

import ottla.client
import ottla.client.consumer
import ottla.client.producer
import ottla.spark.pipelines

PACKAGES = (ottla.client, ottla.client.consumer, ottla.client.producer, ottla.spark.pipelines)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_public_name_is_there_and_listed(package):
    assert package.__all__
    for name in package.__all__:
        assert getattr(package, name).__name__
    assert set(package.__all__) <= set(dir(package))


def test_a_name_that_is_not_there_is_an_attribute_error_that_names_the_package():
    with pytest.raises(AttributeError, match=r"module 'ottla\.client' has no attribute 'Produzer'"):
        _ = ottla.client.Produzer


def test_who_needs_only_the_options_does_not_load_the_rest():
    program = (
        "import sys; from ottla.client.producer import ProducerOptions; "
        "print(any(name.endswith(('sync_producer', '.sender')) for name in sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"
