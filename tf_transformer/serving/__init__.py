"""A server of exported models with a REST interface, and its page."""
