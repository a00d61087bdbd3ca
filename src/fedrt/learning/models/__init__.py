"""Models: the architectures, and a model whose whole state is one vector."""
