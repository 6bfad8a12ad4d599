"""The files that `ottla generate` writes, each as a function of a few choices."""
