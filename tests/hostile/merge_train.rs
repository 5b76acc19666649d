//! The merge train under failures: what is called merged is in what lands.
