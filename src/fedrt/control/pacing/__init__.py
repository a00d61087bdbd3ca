"""How a run spends its energy over time: prices of a joule, and when a round is expected to end."""
