"""The learning task: data, who holds what, models, and the engines that train them."""
