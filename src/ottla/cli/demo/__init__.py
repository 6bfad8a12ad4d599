"""`ottla demo`: a stream of orders, a pipeline that sums them up, and its results, live.

command      the command
run          the run from start to end
own_broker   a temporary broker, if none runs
state        the feed of orders, the topics, and the state of the run: rates, lag, results
pipeline     sums up the orders: Spark in a process of its own, or a consumer group in this one
screen       shows the state on a terminal
"""
