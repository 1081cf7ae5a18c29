"""The error of a request: of the REST interface, of gRPC, and of access control."""

MAX_SHOWN_CHARACTERS = 200  # of text of the request in an error message


class RequestError(Exception):
    """A request whose response is an error.

    Args:
      status: the HTTP status; gRPC has a status code for each.
      message: the value of "error" in the body, or the details of the gRPC status.
      headers: of the response.
      private: a part of the message that quotes the body of the request. Logs have "..." instead.
    """

    def __init__(
        self,
        status: int,
        message: str,
        headers: dict[str, str] | None = None,
        private: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}
        self.private = private

    @property
    def log_message(self) -> str:
        """The message without text of the request."""
        return self.message.replace(self.private, "...") if self.private else self.message


def shorten(text: str) -> str:
    """Cuts a text that is long, for an error message."""
    if len(text) <= MAX_SHOWN_CHARACTERS:
        return text
    return f"{text[:MAX_SHOWN_CHARACTERS]}..."
