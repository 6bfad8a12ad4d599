import io
import json
import logging
import sys

import pytest

from ottla.common.log_format import JsonFormatter, TextFormatter, resolve, set_up_logging


def record(message: str, *args: object, **more: object) -> logging.LogRecord:
    made = logging.LogRecord("ottla.slow", logging.WARNING, __file__, 1, message, args, None)
    vars(made).update(more)
    return made


def test_a_json_line_has_the_event_and_its_fields():
    line = JsonFormatter({"node_id": "3"}).format(record("slow %s", "Produce", api="Produce", total_ms=7))
    said = json.loads(line)
    assert said.pop("time").endswith("Z")
    assert said == {
        "level": "warning",
        "logger": "ottla.slow",
        "message": "slow Produce",
        "node_id": "3",
        "api": "Produce",
        "total_ms": 7,
    }


def test_an_event_is_one_line_whatever_a_client_has_sent():
    event = record("refused %s", "evil\nWARNING ottla: forged\r\n")
    assert "\n" not in JsonFormatter({}).format(event)
    assert "\n" not in TextFormatter("%(message)s").format(event)


def test_a_traceback_is_one_field():
    try:
        raise ValueError("broken")
    except ValueError:
        failed = record("failed")
        failed.exc_info = sys.exc_info()
    line = JsonFormatter({}).format(failed)
    assert "\n" not in line
    assert json.loads(line)["exception"].endswith("ValueError: broken")


@pytest.mark.parametrize(("is_terminal", "form"), [(True, "text"), (False, "json")])
def test_by_itself_it_is_text_on_a_terminal_and_json_elsewhere(monkeypatch, is_terminal, form):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    assert resolve("auto") == form
    assert resolve("text") == "text"


def test_logging_is_set_up_anew(monkeypatch):
    handlers, level = logging.root.handlers[:], logging.root.level
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    try:
        set_up_logging("info", "auto", {"node_id": "1"})
        logging.getLogger("ottla.x").info("hello")
        logging.getLogger("ottla.x").debug("not this")
    finally:
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
    assert [json.loads(line)["message"] for line in out.getvalue().splitlines()] == ["hello"]
