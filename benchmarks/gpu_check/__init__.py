"""Checks that training and search are right on this host's GPUs, and measures their speed."""
