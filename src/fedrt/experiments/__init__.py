"""The paper's table and figures, made again."""
