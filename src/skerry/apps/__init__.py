"""Assembled programs."""
