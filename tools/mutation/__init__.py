"""Mutation testing: changes of one place in the source that some test must notice."""
