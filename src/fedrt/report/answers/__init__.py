"""What comparisons, sweeps, fronts and bounds found, in sentences for terminal and page."""
