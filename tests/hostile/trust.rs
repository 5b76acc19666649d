//! Nothing that comes with a repository runs before a person accepted it.
