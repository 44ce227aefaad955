"""The report: what happened, on one page."""
