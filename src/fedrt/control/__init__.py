"""Decisions: allocation, topology, mixing, consensus and the convergence bound."""
