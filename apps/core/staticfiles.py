"""Static files from memory: WhiteNoise finds them, and they leave in one piece."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware  # type: ignore[import-untyped]


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]
    """WhiteNoise for ASGI.

    Its own answers are read block by block in a thread each, which Django warns about; our largest
    file has two megabytes.
    """

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        """Answer with a file, a part of it, or the word that it has not changed."""
        found = static_file.get_response(request.method, request.META)
        content = b""
        if found.file is not None:
            with found.file:
                content = found.file.read()
        answer = HttpResponse(content, status=int(found.status))
        del answer.headers["Content-Type"]
        for name, value in found.headers:
            answer.headers[name] = value
        return answer
