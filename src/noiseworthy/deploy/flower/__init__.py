"""Flower as a transport: it carries bytes between the server and the owners' gateways, and knows no more."""
