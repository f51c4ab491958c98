"""Fu et al.: how many local iterations before a reply."""
