import gzip

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from ottla.api.support.request_times import BOUNDS_S
from ottla.metrics import exporter_metrics, jmx_metrics, own_metrics
from ottla.metrics.exposition import render
from ottla.metrics.samples import Distribution, Samples, Summary

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


def some_samples() -> Samples:
    samples = Samples()
    samples.put(jmx_metrics.TOPIC_COUNTERS["records_in"], 7)
    samples.put(jmx_metrics.TOPIC_COUNTERS["records_in"], 5, "orders")
    samples.put(exporter_metrics.GROUP_MEMBERS, 2, 'a "group"\nof\\mine')
    buckets = (3, *[0] * (len(BOUNDS_S) - 1), 1)
    samples.put(own_metrics.REQUEST_SECONDS, Distribution(buckets, 12.5), "Produce")
    samples.put(jmx_metrics.TOTAL_TIME, Summary(4, 12_500, {"0.5": 0.05}), "Produce")
    samples.put(jmx_metrics.ELECTIONS, Summary(9))
    return samples


def served(families) -> dict:
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def check(values: dict) -> None:
    assert values["kafka_server_brokertopicmetrics_messagesin_total",] == 7
    assert values["kafka_server_brokertopicmetrics_messagesin_total", ("topic", "orders")] == 5
    assert values["kafka_consumergroup_members", ("consumergroup", 'a "group"\nof\\mine')] == 2
    assert values["ottla_request_seconds_count", ("request", "Produce")] == 4
    assert values["ottla_request_seconds_bucket", ("le", "10.0"), ("request", "Produce")] == 3
    assert values["ottla_request_seconds_bucket", ("le", "+Inf"), ("request", "Produce")] == 4
    median = ("kafka_network_requestmetrics_totaltimems", ("quantile", "0.5"), ("request", "Produce"))
    assert values[median] == 0.05
    assert values["kafka_controller_controllerstats_leaderelectionrateandtimems_count",] == 9


def test_a_parser_of_the_text_format_reads_what_was_gathered():
    body, content_type = render(some_samples(), "", zipped=False)
    assert content_type.startswith("text/plain; version=0.0.4")
    check(served(parse_text(body.decode())))


def test_clients_that_accept_openmetrics_get_it():
    body, content_type = render(some_samples(), OPENMETRICS, zipped=False)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert body.endswith(b"# EOF\n")
    check(served(parse_openmetrics(body.decode())))


def test_zipped_it_is_the_same():
    body, _ = render(some_samples(), "", zipped=True)
    check(served(parse_text(gzip.decompress(body).decode())))


def test_the_process_is_part_of_it():
    body, _ = render(Samples(), "", zipped=False)
    assert served(parse_text(body.decode()))["process_resident_memory_bytes",] > 0
