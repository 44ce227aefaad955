"""Recorded traffic: how updates become batches of rows, and rows become updates again."""
