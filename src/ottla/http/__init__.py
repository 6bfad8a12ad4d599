"""The one HTTP set-up of Ottla's services: limits, errors in JSON, access log, graceful stop.

    limits     how large, how slow and how many requests may be
    errors     what a handler raises
    routing    paths to handlers, segment by segment, so that names may hold encoded slashes
    app        reads a request within the limits, calls its handler, writes the answer and the access log
    guard      connections whose request does not come, or is too large, are closed
    server     listens, serves, and stops in good order

It stands on uvicorn and starlette, and imports nothing of the broker. Brokers serve their metrics without it:
a scrape must not cost.
"""
