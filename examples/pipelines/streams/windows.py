"""Kafka Streams' TimeWindows (tumbling and hopping) and SessionWindows, with a grace period.

The watermark is the grace: a click that is more than two minutes older than the youngest one of earlier
batches finds its window closed. Update mode writes a window whenever it has changed, as Kafka Streams does;
session windows are written when they are over. To have all windows written only then: suppress.py.

ottla pipeline run windows.py --available-now
"""

from pyspark.sql import functions as sf

from ottla.spark import pipelines as dp

CLICK = "user STRING, at TIMESTAMP"
GRACE = "2 minutes"


def counted(clicks, window):
    """Clicks per window and user."""
    counts = clicks.withWatermark("at", GRACE).groupBy(window.alias("window"), "user").count()
    return counts.select("user", "window.start", "window.end", "count")


def clicks():
    return dp.read_topic("clicks", schema=CLICK)


@dp.table(format="ottla", options={"topic": "clicks-tumbling", "key": "user"}, output_mode="update")
def tumbling():
    return counted(clicks(), sf.window("at", "1 minute"))


@dp.table(format="ottla", options={"topic": "clicks-hopping", "key": "user"}, output_mode="update")
def hopping():
    """Windows of two minutes, a new one every minute."""
    return counted(clicks(), sf.window("at", "2 minutes", "1 minute"))


@dp.table(format="ottla", options={"topic": "clicks-sessions", "key": "user"})
def sessions():
    """A session ends when a user does nothing for 30 seconds."""
    return counted(clicks(), sf.session_window("at", "30 seconds"))
