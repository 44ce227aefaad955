"""Messages of the site between a node and the multicast group of its system."""
