"""The group of workers: Connect's group protocol, who runs what, and membership."""
