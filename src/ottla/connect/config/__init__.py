"""Configs of connectors: declared keys, validation as Connect answers it, config providers, secrets."""
