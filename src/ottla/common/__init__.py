"""What every layer needs and none owns: time, ids, units, names, configuration.

Nothing here imports anything else of Ottla's. The clock and the ids are the only sources of time and
randomness, so that a simulation can replace them. Configuration reads in this order: config_types.py
(what a value may be), config.py (what a key is), network_keys.py, log_keys.py, append_keys.py and
cleaner_keys.py (keys by subject), broker_keys.py and topic_keys.py (the two configurations).
"""
