"""For notebooks 10 and A1: commands of the package, and whether the server is ready."""

import subprocess
import sys
import urllib.request


def command_line(command):
    """Runs `tf-transformer COMMAND` as a shell does, and returns what it prints.

    Raises: subprocess.CalledProcessError if the command fails; its output is printed before.
    """
    program = [sys.executable, "-m", "tf_transformer", *command.split()]
    done = subprocess.run(
        program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        print(done.stdout)
    done.check_returncode()
    return done.stdout


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
