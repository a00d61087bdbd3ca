"""Gossip between edge servers: weights, number of steps, and how fast the models converge."""
