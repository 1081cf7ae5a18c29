"""Exports for other engines, and a REST server."""
