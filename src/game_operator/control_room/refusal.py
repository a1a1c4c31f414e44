"""What a page refuses to do, as an exception that becomes an answer."""

__all__ = ["NotServedError"]


class NotServedError(Exception):
    """
    A request that is not served.

    Attributes:
        status: The HTTP status of the answer.
        sentence: What is wrong with the request and what to do, for the person who reads the answer.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
