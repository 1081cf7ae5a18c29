"""Further searches, and the choice among their results."""
