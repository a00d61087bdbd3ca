"""Which links between edge servers to use, and how far their models may drift apart."""
