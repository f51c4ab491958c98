"""Secure sums over a network: owners send masked uploads, a server opens nothing but their sum."""
