//! What of the caller and of others reaches an agent.
