"""A server of exported models with REST and gRPC interfaces, its page, and its clients."""
