"""Configs of connectors.

keys           one config key: type, default, check, documentation
common_keys    the keys that all connectors, sources or sinks have
validation     the answer of Connect's validate call
providers      `${provider:path:key}` in a config
secrets        passwords that answers do not show
"""
