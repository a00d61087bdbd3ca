"""Training on a cluster: the engine protocol over Ray. The only home of ray."""
