"""Small machines that show how one is written, and on which the simulator itself is proven."""
