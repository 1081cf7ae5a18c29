"""The errors that the package raises for a user's mistake."""


class UserError(ValueError):
    """A mistake of the user, such as a missing file or a setting out of range.

    The message says what is wrong, where, and what to do. The command line prints it and exits with
    code 2.
    """


class DamagedError(UserError):
    """A checkpoint whose bytes have changed since it was written."""
