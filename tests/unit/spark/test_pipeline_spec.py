from __future__ import annotations

import pytest

from ottla.spark.pipelines.problems import PipelineProblem
from ottla.spark.pipelines.project import open_project
from ottla.spark.pipelines.run.storage import open_storage
from ottla.spark.pipelines.spec import Spec, read_spec


def test_a_spec_of_spark_pipelines_is_read():
    text = """
# made by spark-pipelines init
name: shop   # the shop
storage: "file:///data/shop"
database: 'sales'
configuration:
  spark.sql.shuffle.partitions: "4"
  spark.x: a#b
libraries:
  - glob:
      include: transformations/**
  - glob:
      include: more.sql
"""
    assert read_spec(text, "s") == Spec(
        name="shop",
        storage="file:///data/shop",
        database="sales",
        configuration={"spark.sql.shuffle.partitions": "4", "spark.x": "a#b"},
        libraries=("transformations/**", "more.sql"),
    )


def test_lists_may_stand_at_the_indentation_of_their_key():
    assert read_spec("libraries:\n- glob:\n    include: a.py\nname: x", "s").libraries == ("a.py",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nam: x", "did you mean: name"),
        ("name: x\nname: y", "given twice"),
        ("just words", "field: value"),
        ("name: 'x", "unexpected end of stream"),
        ("libraries:\n  - a.py", "a library is written"),
        ("libraries:\n  - glob: {include: a.py, exclude: b.py}", "a library is written"),
        ("libraries: a.py", "a library is written"),
        ("name: x\n   odd: y", "not allowed here"),
        ("name: [x]", "name is a text"),
        ("configuration: x", "configuration is a list"),
        ("configuration: {a: [1]}", "a is one value"),
        ("name: \x00", "not YAML"),
        ("name: *nowhere", "undefined alias"),
    ],
)
def test_what_is_no_spec_is_refused(text, words):
    with pytest.raises(PipelineProblem) as caught:
        read_spec(text, "s.yml")
    assert words in str(caught.value)
    assert str(caught.value).startswith("s.yml")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("'it''s'", "it's"),
        (r'"\t"', "\t"),
        (r'"a\u00e4"', "aä"),
        ("|\n  one\n  two", "one\ntwo"),
        ("1.10", "1.10"),
        ("true", "true"),
        ("&anchor x", "x"),
        ("~", ""),
        ("", ""),
    ],
)
def test_scalars_are_read_as_yaml_has_them_and_stay_text(written, read):
    assert read_spec(f"name: {written}", "s").name == read


def test_settings_are_the_text_that_was_written():
    spec = read_spec("configuration: {spark.a: true, spark.b: 4, spark.c: 010, spark.d: ~}", "s")
    assert spec.configuration == {"spark.a": "true", "spark.b": "4", "spark.c": "010"}


@pytest.mark.parametrize(
    ("text", "line"),
    [("name: x\n\nnam: y", 3), ("name: x\nname: y", 2), ("name: 'x\n", 2), ("libraries:\n- a\n", 2)],
)
def test_a_mistake_is_shown_with_its_line(text, line):
    with pytest.raises(PipelineProblem) as caught:
        read_spec(text, "s.yml")
    assert str(caught.value).startswith(f"s.yml:{line}: ")


def test_a_project_is_a_file_a_folder_or_a_spec(tmp_path):
    (tmp_path / "transformations").mkdir()
    (tmp_path / "tests").mkdir()
    one = tmp_path / "transformations" / "one.py"
    two = tmp_path / "two.sql"
    for file in (one, two, tmp_path / "tests" / "test_x.py"):
        file.touch()
    assert open_project(one).name == "one"
    assert set(open_project(tmp_path).files) == {one, two}
    (tmp_path / "spark-pipeline.yml").write_text("name: my shop\nstorage: here")
    project = open_project(tmp_path)
    assert (project.name, project.files) == ("my-shop", (one,))
    assert open_project(tmp_path / "spark-pipeline.yml") == project


def test_a_path_without_a_pipeline_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "none.py"):
        with pytest.raises(PipelineProblem, match=r"no \.py|no file"):
            open_project(path)


def test_storage_is_under_the_root_unless_the_spec_names_a_folder(tmp_path):
    plain = open_storage(tmp_path / "root", "shop", tmp_path)
    assert plain.checkpoint("f") == tmp_path / "root/shop/checkpoints/f"
    declared = open_storage(tmp_path / "root", "shop", tmp_path, "file:///data/s")
    assert str(declared.checkpoint("f")) == "/data/s/checkpoints/f"
    assert declared.state_file == plain.state_file
    assert open_storage(tmp_path, "shop", tmp_path, "store").data == tmp_path / "store"
    with pytest.raises(PipelineProblem, match="not on a local file system"):
        open_storage(tmp_path, "shop", tmp_path, "s3://bucket/x")
