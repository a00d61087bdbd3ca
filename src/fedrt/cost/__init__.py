"""The cost model: one pure function per equation."""
