"""Recordings on disk: folders of segments, who writes them, and who reads them."""
