"""HTTP requests and responses: between our values and those of an HTTP library."""
