"""From frame to frame: pure functions that tables are made with."""
