"""One upload of noised second moments, solved at the server."""
