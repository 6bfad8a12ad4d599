"""`ottla demo`: orders stream in, a pipeline adds them up, the results come out, all before your eyes.

command      the command, and the run from start to end
orders       the feed: the same orders for the same seed
own_broker   a broker of the demo's own, if none runs
pipeline     what adds up the orders: Spark in a process of its own, or a consumer group in this one
sales        the pipeline as a file, for Spark
names        what its topics and its group are called
scene        what is known at a moment: rates, lag, results
screen       the scene on a terminal
"""
