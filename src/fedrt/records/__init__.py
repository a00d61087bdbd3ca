"""What is kept of a run: its tables, its summary, its folder, and what it resumes from."""
