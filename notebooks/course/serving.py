"""For notebook A1: whether the server is ready."""

import urllib.request


def is_ready(address):
    """Whether a server answers a health check with status 200.

    Args:
      address: such as "http://127.0.0.1:8501".
    Returns: False too where nothing listens at the address.
    """
    try:
        with urllib.request.urlopen(f"{address}/healthz", timeout=10) as response:
            return response.status == 200
    except OSError:  # no connection, or another status
        return False
