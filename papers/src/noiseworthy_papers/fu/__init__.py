"""Fu et al.: how many local steps before a reply, under local noise."""
