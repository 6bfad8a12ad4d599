from __future__ import annotations

import pytest

from ottla.spark import pipelines as dp
from ottla.spark.pipelines.elements import Kind
from ottla.spark.pipelines.loading import declaring_from_spark
from ottla.spark.pipelines.problems import PipelineProblem
from ottla.spark.pipelines.registry import Graph, Registry, declaring


@pytest.fixture
def registry():
    with declaring(Registry()) as registry:
        yield registry


def test_a_decorated_function_is_a_dataset_and_a_flow_and_stays_callable(registry):
    @dp.table(format="ottla", options={"topic": "t", "key": "item"}, output_mode="update")
    def revenue():
        return 42

    assert revenue() == 42
    dataset, flow = registry.datasets["revenue"], registry.flows["revenue"]
    assert (dataset.kind, dataset.format, dataset.topic) == (Kind.STREAMING_TABLE, "ottla", "t")
    assert (flow.target, flow.output_mode, flow.function()) == ("revenue", "update", 42)
    assert dataset.place.file == __file__


def test_decorators_work_with_and_without_arguments(registry):
    @dp.materialized_view
    def one(): ...

    @dp.materialized_view(name="other", comment="said")
    def two(): ...

    @dp.temporary_view
    def three(): ...

    assert {name: each.kind.value for name, each in registry.datasets.items()} == {
        "one": "materialized view",
        "other": "materialized view",
        "three": "temporary view",
    }
    assert registry.datasets["other"].comment == "said"


def test_several_flows_share_a_streaming_table(registry):
    dp.create_streaming_table("all_orders")

    @dp.append_flow(target="all_orders")
    def from_shop(): ...

    @dp.append_flow(target="all_orders", name="web")
    def from_web(): ...

    registry.check()
    assert [flow.name for flow in registry.flows_into("all_orders")] == ["from_shop", "web"]


def test_a_name_declared_twice_is_refused_with_both_places(registry):
    dp.create_sink("out", "ottla", {"topic": "a"})
    with pytest.raises(PipelineProblem) as caught:
        dp.create_sink("out", "ottla", {"topic": "b"})
    assert "declared twice" in str(caught.value)
    assert str(caught.value).count(__file__) == 2


def test_an_unknown_target_is_refused_with_the_near_name(registry):
    dp.create_sink("revenue", "ottla", {"topic": "a"})

    @dp.append_flow(target="revenu")
    def flow(): ...

    with pytest.raises(PipelineProblem, match=r"revenu.*is not declared") as caught:
        registry.check()
    assert "did you mean: revenue?" in caught.value.hints


def test_a_table_without_a_flow_is_refused(registry):
    dp.create_streaming_table("lonely")
    dp.create_sink("out", "noop")

    @dp.append_flow(target="out")
    def flow(): ...

    with pytest.raises(PipelineProblem, match="no flow writes to the streaming table 'lonely'"):
        registry.check()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"output_mode": "upsert"}, "not an output mode"), ({"output_mode": "complete"}, "no complete mode")],
)
def test_output_modes_that_cannot_be_are_refused(registry, arguments, words):
    with pytest.raises(PipelineProblem, match=words):

        @dp.table(**arguments)
        def counts(): ...

        registry.check()


def test_a_file_of_a_pipeline_run_by_python_says_how_to_run_it():
    with pytest.raises(PipelineProblem, match="run it with ottla"):

        @dp.table
        def orders(): ...


def test_files_with_the_decorators_of_spark_itself_declare_the_same():
    from pyspark import pipelines as sdp

    registry = Registry()
    with declaring_from_spark(registry):
        sdp.create_sink("out", "ottla", {"topic": "t"})

        @sdp.append_flow(target="out")
        def flow(): ...

        @sdp.table(partition_cols=["day"])
        def orders(): ...

        @sdp.materialized_view
        def totals(): ...

    registry.check()
    assert {each.name: each.kind for each in registry.datasets.values()} == {
        "out": Kind.SINK,
        "orders": Kind.STREAMING_TABLE,
        "totals": Kind.MATERIALIZED_VIEW,
    }
    assert registry.datasets["orders"].partition_cols == ("day",)
    assert registry.datasets["out"].place.file == __file__


def test_the_order_of_a_graph_has_each_after_what_it_reads():
    graph = Graph({"c": ["b", "a"], "b": ["a"], "a": [], "d": ["c"]})
    assert graph.order() == ["a", "b", "c", "d"]
    assert graph.upstream_of("d") == {"a", "b", "c"}


def test_a_circle_is_refused_and_named():
    with pytest.raises(PipelineProblem, match="'a' reads itself: a <- b <- c <- a"):
        Graph({"a": ["b"], "b": ["c"], "c": ["a"]}).order()
