"""Further columns of a run's tables: failures, and what was predicted for real devices."""
