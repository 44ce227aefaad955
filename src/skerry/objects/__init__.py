"""What programs hold: Python classes of types, their objects, and other forms of both."""
