"""The certificate and the private key of the server."""

import ssl

from tf_transformer.errors import UserError


def check_certificate(certificate: str, key: str) -> None:
    """Checks that a server can use a certificate, before it starts.

    Args:
      certificate: path of a PEM file with the certificate and those of its issuers; "" for none.
      key: path of a PEM file with its private key; "" when it is in the same file.
    Raises: UserError.
    """
    if not certificate:
        if key:
            raise UserError("--tls_key needs --tls_certificate")
        return
    _check_file(certificate, "CERTIFICATE", "certificate", "tls_certificate")
    _check_file(key or certificate, "PRIVATE KEY", "private key", "tls_key")
    asked = False

    def password() -> str:
        nonlocal asked
        asked = True
        return ""

    # Without this function, OpenSSL would ask for the password at the terminal.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key or None, password)
    except ssl.SSLError as error:
        if asked:
            raise UserError(
                f"the private key in {key or certificate} is protected by a password: write it "
                "without one, with `openssl pkey -in FILE -out NEW_FILE`"
            ) from None
        if error.reason == "KEY_VALUES_MISMATCH":
            raise UserError(
                f"the private key in {key or certificate} is not that of the certificate in "
                f"{certificate}: give another --tls_key"
            ) from None
        reason = (error.reason or str(error)).replace("_", " ").lower()
        raise UserError(
            f"the certificate in {certificate} and its private key cannot be used: {reason}"
        ) from None


def _check_file(path: str, label: str, meaning: str, flag: str) -> None:
    """Raises: UserError for a file that cannot be read, or without a PEM block of this label."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise UserError(f"--{flag}: cannot read {path}: {error.strerror or error}") from None
    if not any(
        line.startswith(b"-----BEGIN ") and line.rstrip().endswith(f"{label}-----".encode())
        for line in content.splitlines()
    ):
        raise UserError(f"--{flag}: {path} has no {meaning} in PEM format")
