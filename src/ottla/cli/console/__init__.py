"""`ottla console`: the web console."""
