"""A small HTTP server whose answers a test decides, for tests of the client."""

import contextlib
import http.server
import json
import threading


@contextlib.contextmanager
def scripted_server(answer):
    """Runs a server. Yields: its address.

    Args:
      answer: texts of a request -> status and body, which is bytes or becomes JSON. None closes the
        connection without a response.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if answered := answer(json.loads(body)["inputs"]["text"]):
                status, content = answered
                self.send_response(status)
                self.end_headers()
                content = content if isinstance(content, bytes) else json.dumps(content).encode()
                with contextlib.suppress(BrokenPipeError):  # the client has not waited
                    self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.02])
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def translated(texts):
    """The answer of a model that writes capital letters."""
    outputs = {"translation": [text.upper() for text in texts], "score": [-0.5] * len(texts)}
    return 200, {"outputs": outputs}
