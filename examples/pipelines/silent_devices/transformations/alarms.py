"""The topic `signals` in, the topic `alarms` out."""

from silence import RESULT, Silence

from ottla.spark import pipelines as dp


def silences(signals):
    """Rows with device and at."""
    timed = signals.withWatermark("at", "10 seconds").selectExpr("*", "unix_millis(at) AS at_ms")
    return timed.groupBy("device").transformWithState(Silence(), RESULT, "Append", "EventTime")


@dp.table(format="ottla", options={"topic": "alarms", "key": "device"})
def alarms():
    return silences(dp.read_topic("signals", schema="device STRING, at TIMESTAMP"))
