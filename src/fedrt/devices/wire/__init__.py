"""What coordinator, edge servers and devices send each other."""
