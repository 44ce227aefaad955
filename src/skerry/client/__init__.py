"""What applications hold of a node: a space, its containers and subscriptions."""
