"""Training (Sec. 5): loss, schedule, optimizer, distribution, update, trainer."""
