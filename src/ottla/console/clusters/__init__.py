"""A cluster as the console sees it.

live        connections to one cluster, and the newest snapshot of it
snapshot    brokers, topics, sizes and offsets at one moment
health      what is wrong, in sentences, and what to do
sampler     measures every few seconds: rates, lag, sizes
history     keeps the samples of the last hours in SQLite
"""
