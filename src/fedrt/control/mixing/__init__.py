"""How edge servers mix their models, and how fast that brings them together."""
