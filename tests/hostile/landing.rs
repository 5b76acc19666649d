//! Landing: what was shown is what lands, and a refused landing leaves everything as it was.
