"""The paper's Tables 2 and 3, operation counts, and checks of a model's invariants."""
