"""What a program that does without this package imports instead: for requests, for models, for signatures."""

import httpx  # noqa: F401
from cryptography.hazmat.primitives import hashes, serialization  # noqa: F401
from cryptography.hazmat.primitives.asymmetric import padding, rsa  # noqa: F401
from pydantic import BaseModel, TypeAdapter  # noqa: F401
