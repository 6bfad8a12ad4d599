"""`ottla registry`: run a schema registry, and look at or change its schemas. Begin with command.py."""
