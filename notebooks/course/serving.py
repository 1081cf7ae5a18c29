"""For notebooks F and H: commands of the package, and its server."""

import atexit
import socket
import subprocess
import sys
import time
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


def start_server(folder):
    """Starts the server in the background and waits until it is ready.

    It ends with the notebook.

    Returns: the process; the port.
    Raises:
      RuntimeError: the server ended before it was ready.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # the system chooses a free port
        port = free.getsockname()[1]
    command = ["serve", f"--export_dir={folder}", f"--port={port}", "--quiet"]
    server = subprocess.Popen([sys.executable, "-m", "tf_transformer", *command])
    atexit.register(server.terminate)
    while not is_ready(f"http://127.0.0.1:{port}"):
        if server.poll() is not None:
            raise RuntimeError("the server ended: its message is where Jupyter was started")
        time.sleep(0.2)
    return server, port


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
