//! References, reports and logs that grow, leak or stand in the way.
