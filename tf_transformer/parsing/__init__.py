"""English constituency parsing as translation (Sec. 6.3)."""
