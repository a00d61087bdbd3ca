"""What several tests share: small scenarios and runs, a user's own code, child processes."""
