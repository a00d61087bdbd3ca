"""The reproduction of the paper's table and figures."""
