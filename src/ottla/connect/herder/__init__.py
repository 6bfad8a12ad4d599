"""The herder: what the configs topic says, who runs it, and what REST calls do to it."""
