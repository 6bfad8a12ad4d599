"""What a handler raises to answer with an error."""

from __future__ import annotations

from http import HTTPStatus


class HttpError(Exception):
    """An answer that is an error: `{"error_code": code, "message": message}` with an HTTP status."""

    def __init__(self, status: int, code: int | None = None, message: str | None = None) -> None:
        self.status = status
        self.code = status if code is None else code
        self.message = f"HTTP {status} {HTTPStatus(status).phrase}" if message is None else message
        self.headers: tuple[tuple[bytes, bytes], ...] = ()
        super().__init__(self.message)

    def as_json(self) -> dict[str, object]:
        """Return the body of the answer."""
        return {"error_code": self.code, "message": self.message}
