"""The herder of a worker: what the configs topic says, who runs it, and what REST calls do to it.

herder             follows Connect's three topics, and takes part in the group
topic_table        a compacted topic as a table
cluster_state      what the configs topic says; pure
statuses           what the status topic says; pure
task_planner       the leader's part: configs of tasks
desired            what this worker should run, and how that differs from what it runs; pure
task_runner        has the engine start and stop tasks
old_checkpoints    checkpoints of tasks that a connector no longer has
requests           what the REST calls do
"""
