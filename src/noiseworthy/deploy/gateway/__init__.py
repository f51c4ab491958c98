"""The gateway at a data owner: alone reads the data, pays, draws the noise, and answers over a socket."""
