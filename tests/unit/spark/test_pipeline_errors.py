from __future__ import annotations

from pathlib import Path

import pytest

from ottla.spark.messages import conditions, sentence
from ottla.spark.pipelines.problems import PipelineProblem, Place
from ottla.spark.pipelines.run.user_errors import (
    Context,
    explain_error,
    is_jvm_gone,
    is_users,
    place_in_sql,
)

HERE = Context([Path(__file__)], ["orders", "revenue"])


class SparkSaid(Exception):
    """Stands for PySpark's exceptions: told by their module."""

    __module__ = "pyspark.errors.exceptions.captured"

    def getMessageParameters(self):  # noqa: N802
        return {"relationName": "`ordes`"}


UDF = f"""[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_EXCEPTION] An \
exception was thrown from the Python worker: Traceback (most recent call last):
  File "/site-packages/pyspark/worker.py", line 34, in main
    process()
  File "{__file__}", line 7, in halve
    return 1//0
           ~^^~
ZeroDivisionError: integer division or modulo by zero
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 1]
\tat org.apache.spark.Whatever
"""

SOURCE = """[STREAM_FAILED] Query [id = 1] terminated with exception: \
[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed: Traceback (most recent call last):
  File "/x/site-packages/ottla/spark/source/stream_reader.py", line 9, in latestOffset
    raise DataLoss
ottla.spark.errors.DataLoss: orders-0 begins at 7 now. Some records may be gone
 SQLSTATE: 38000"""


def test_the_error_of_a_users_function_in_a_worker_shows_the_users_line():
    problem = explain_error(SparkSaid(UDF), HERE, Place("p.py", 1))
    assert problem.what == "ZeroDivisionError: integer division or modulo by zero"
    assert problem.place == Place(__file__, 7)
    assert is_users(SparkSaid(UDF), HERE)


def test_errors_of_our_own_source_are_shown_as_they_are_and_may_pass():
    problem = explain_error(SparkSaid(SOURCE), HERE, Place("p.py", 3))
    assert problem.what == "orders-0 begins at 7 now. Some records may be gone"
    assert problem.place == Place("p.py", 3)
    assert not is_users(SparkSaid(SOURCE), HERE)


def test_a_broker_that_is_away_is_named_with_what_to_type():
    said = SOURCE.replace("errors.DataLoss: orders-0 begins at 7 now. Some records may be gone", "{}")
    said = said.format("BrokerUnreachable: no broker at 127.0.0.1:9092: connection refused")
    problem = explain_error(SparkSaid(said), HERE, Place("p.py", 3))
    assert problem.what == "no broker at 127.0.0.1:9092: connection refused"
    assert "ottla serve" in problem.hints[-1]
    assert "-b HOST:PORT" in problem.hints[-1]
    assert not is_users(SparkSaid(said), HERE)


def test_a_message_loses_its_codes_plans_and_stacks():
    text = "[AN_ERROR.KIND] It is so.\nReally SQLSTATE: 42703; line 1 pos 7;\n'Project\n+- x\n\tat org.x"
    assert sentence(text) == "It is so.\n  Really"
    assert conditions(text) == ["AN_ERROR.KIND"]
    assert sentence("") == "Spark gave no reason"


def test_an_unknown_table_is_named_with_the_near_one():
    problem = explain_error(SparkSaid("[TABLE_OR_VIEW_NOT_FOUND] The table `ordes`"), HERE)
    assert "'ordes'" in problem.what
    assert "did you mean: orders?" in problem.hints


def test_an_exception_of_the_users_own_has_its_line():
    with pytest.raises(ValueError) as caught:
        raise ValueError("mine")
    problem = explain_error(caught.value, HERE)
    assert problem.what == "ValueError: mine"
    assert problem.place is not None
    assert problem.place.text() == 'raise ValueError("mine")'
    assert is_users(caught.value, HERE)
    assert not is_users(OSError("elsewhere"), HERE)


def test_a_slip_of_the_pen_is_pointed_at():
    with pytest.raises(SyntaxError) as caught:
        compile("def f(:\n", "p.py", "exec")
    problem = explain_error(caught.value, HERE)
    assert problem.place == Place("p.py", 1)
    assert problem.hints == ("      ^",)


def test_the_line_of_a_sql_file_is_counted_from_the_query():
    start = Place("p.sql", 10)
    assert place_in_sql(SparkSaid("bad (line 3, pos 4)"), start, "a\nb\nc") == Place("p.sql", 12)
    assert place_in_sql(SparkSaid("bad"), start, "a") == start


def test_a_problem_is_headline_line_and_hints(tmp_path):
    file = tmp_path / "p.py"
    file.write_text("one\n  two\n")
    problem = PipelineProblem("it broke", "mend it", place=Place(str(file), 2))
    assert str(problem) == f"{file}:2: it broke\n  two\n  mend it"
    assert str(PipelineProblem("it broke")) == "it broke"


def test_a_spark_that_is_gone_is_reported_from_other_errors():
    gone = [
        ConnectionRefusedError("[Errno 111]"),
        SparkSaid("Cannot call methods on a stopped SparkContext."),
    ]
    assert all("process has ended" in explain_error(error, HERE).what for error in gone)
    assert not is_jvm_gone(SparkSaid("other"))


def test_a_planner_that_has_ended_is_named_and_the_query_may_be_restarted():
    for cause in (" SQLSTATE: XXKST (no cause message)", "Broken pipe SQLSTATE: XXKST"):
        text = (
            f"[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: {cause}\n"
            "=== Streaming Query ===\nCurrent Committed Offsets: {org.apache.spark.sql.execution."
            "datasources.v2.python.PythonMicroBatchStreamWithTriggerAvailableNow@13961e2f: {}}"
        )
        error = SparkSaid(text)
        assert (
            "the Python process that plans what the query reads has ended"
            in explain_error(error, Context()).what
        )
        assert not is_users(error, Context())
