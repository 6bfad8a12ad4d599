"""The processor alone, in milliseconds, without Java: pytest tests/test_silence.py."""

import sys
from pathlib import Path

from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

sys.path.insert(0, str(Path(__file__).parents[1]))
from silence import LIMIT_MS, Silence


def device_tester():
    return TwsTester(Silence(), timeMode="EventTime", eventTimeExtractor=lambda row: row.at_ms)


def signals(*times):
    return [Row(at_ms=each) for each in times]


def test_a_device_that_goes_on_is_not_told():
    device = device_tester()
    assert device.test("lamp", signals(1_000, 2_000, LIMIT_MS + 1_999)) == []
    assert device.setWatermark(LIMIT_MS + 2_000) == []


def test_a_silence_is_told_when_the_time_is_over():
    device = device_tester()
    device.test("lamp", signals(2_000, 1_000))
    assert device.setWatermark(LIMIT_MS + 1_999) == []
    assert device.setWatermark(LIMIT_MS + 2_000) == [Row(device="lamp", silent_since_ms=2_000)]


def test_a_silence_is_told_once_and_the_next_one_again():
    device = device_tester()
    device.test("lamp", signals(1_000))
    assert len(device.setWatermark(LIMIT_MS + 5_000)) == 1
    later = LIMIT_MS + 9_000
    assert device.test("lamp", signals(later)) == []
    assert device.setWatermark(later + LIMIT_MS) == [Row(device="lamp", silent_since_ms=later)]


def test_a_silence_between_two_signals_of_a_batch_is_told_at_once():
    told = device_tester().test("lamp", signals(1_000, LIMIT_MS + 1_000))
    assert told == [Row(device="lamp", silent_since_ms=1_000)]
