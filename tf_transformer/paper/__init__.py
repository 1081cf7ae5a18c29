"""The paper's Tables 2 and 3, and operation counts."""
