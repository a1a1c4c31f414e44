"""
The wire, from both sides, pure: no sockets, clocks, files or randomness.

``operations`` builds and reads each call as the operator, ``service`` as the service, and ``exchange`` says what a
call does next. Both sides share ``canonical`` and ``signing``, so they cannot drift apart.
"""
